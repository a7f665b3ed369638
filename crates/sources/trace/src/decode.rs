//! Bytes to a window. Every count is bounded before anything is made of it.

use egeria_facts::{
    CpuSet, FileKey, FileUse, MAX_FILES, MAX_NAME_CHARS, MAX_THREADS, NodeFacts, ThreadFacts,
    ThreadKey, Window,
};
use egeria_machine::{CpuId, MAX_CPUS, Machine, NodeId};

use crate::code::{Cursor, Damage};
use crate::record::{
    BUSY, DISPLACED, FILES, FileRecord, NodeRecord, PersonRecord, READ, SHARED, ThreadRecord,
    UNKNOWN, WRITTEN, WindowHead,
};
use crate::{MAX_CELLS, MAX_CPU_SETS, MAX_PEOPLE};

/// Bytes that the longest name may take.
const MAX_NAME_BYTES: usize = MAX_NAME_CHARS * 4;

/// What the frames before contained.
#[derive(Default)]
pub(crate) struct Known {
    cpu_sets: Vec<CpuSet>,
    people: Vec<Person>,
    /// Counts windows, so that a thread that is there twice is seen.
    windows: u64,
}

struct Person {
    key: ThreadKey,
    name: String,
    cpus: CpuSet,
    pinned: bool,
    /// The window it was last seen in.
    seen: u64,
}

/// The window of a frame, without its kind; not yet validated.
pub(crate) fn window(
    bytes: &[u8],
    machine: &Machine,
    version: u32,
    known: &mut Known,
) -> Result<Window, Damage> {
    let mut cursor = Cursor::new(bytes);
    let head: WindowHead = cursor.take("a window")?;
    if head.fresh {
        (known.cpu_sets, known.people) = (Vec::new(), Vec::new());
    }
    known.windows += 1;
    let mut nodes = Vec::with_capacity(machine.nodes.len());
    for node in &machine.nodes {
        nodes.push(node_facts(node.id, cursor.take("a node")?));
    }
    known.learn_cpu_sets(&mut cursor)?;
    known.learn_people(&mut cursor)?;
    let most = MAX_THREADS.min(MAX_CELLS / machine.nodes.len().max(1));
    let count = cursor.count("threads", most)?;
    let (mut threads, mut next) = (Vec::with_capacity(count), 0);
    for _ in 0..count {
        threads.push(thread(&mut cursor, machine, version, known, &mut next)?);
    }
    cursor.finish()?;
    Ok(Window {
        number: head.number,
        start_ns: head.start_ns,
        duration_ns: head.duration_ns,
        threads,
        nodes,
    })
}

fn node_facts(node: NodeId, record: NodeRecord) -> NodeFacts {
    NodeFacts {
        node,
        has_pool: record.has_pool,
        read_bytes: record.read_bytes,
        written_bytes: record.written_bytes,
        busy_ns: record.busy_ns,
    }
}

impl Known {
    fn learn_cpu_sets(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Damage> {
        let count = cursor.count("CPU sets", MAX_CPU_SETS - self.cpu_sets.len())?;
        for _ in 0..count {
            self.cpu_sets.push(cpu_set(cursor)?);
        }
        Ok(())
    }

    fn learn_people(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Damage> {
        let count = cursor.count("new threads", MAX_PEOPLE - self.people.len())?;
        for _ in 0..count {
            let record: PersonRecord<'_> = cursor.take("a thread")?;
            if record.name.len() > MAX_NAME_BYTES {
                return Err(Damage::new("a thread with too long a name"));
            }
            let cpus = self.cpu_sets.get(record.cpu_set as usize);
            let unknown = || Damage::new("a thread with CPUs that nobody named");
            self.people.push(Person {
                key: record.key(),
                name: record.name.to_owned(),
                cpus: cpus.ok_or_else(unknown)?.clone(),
                pinned: record.pinned,
                seen: 0,
            });
        }
        Ok(())
    }

    /// The thread `step` behind `next`; `next` is then the one behind that.
    fn person(&mut self, step: i64, next: &mut i64) -> Result<&Person, Damage> {
        let number = next.checked_add(step);
        let index = number.and_then(|number| usize::try_from(number).ok());
        let person = index.and_then(|index| self.people.get_mut(index));
        let (Some(number), Some(person)) = (number, person) else {
            return Err(Damage::new("a thread that nobody named"));
        };
        if person.seen == self.windows {
            return Err(Damage::new("a thread twice in a window"));
        }
        person.seen = self.windows;
        *next = number + 1;
        Ok(person)
    }
}

fn cpu_set(cursor: &mut Cursor<'_>) -> Result<CpuSet, Damage> {
    let beyond = || Damage::new("CPUs that no machine has");
    let count = cursor.count("runs of CPUs", MAX_CPUS)?;
    let (mut cpus, mut end) = (Vec::new(), 0_u16);
    for _ in 0..count {
        let (gap, more): (u16, u16) = cursor.take("a run of CPUs")?;
        let first = end.checked_add(gap).ok_or_else(beyond)?;
        end = first.checked_add(more).ok_or_else(beyond)?;
        // One that follows no gap would be part of the run before: refusing it bounds the work.
        let is_apart = cpus.is_empty() || gap > 1;
        if usize::from(end) >= MAX_CPUS || !is_apart {
            return Err(beyond());
        }
        cpus.extend((first..=end).map(CpuId));
    }
    Ok(cpus.into_iter().collect())
}

fn thread(
    cursor: &mut Cursor<'_>,
    machine: &Machine,
    version: u32,
    known: &mut Known,
    next: &mut i64,
) -> Result<ThreadFacts, Damage> {
    let ThreadRecord { step, flags, node } = cursor.take("what a thread did")?;
    let is_unknown = flags & UNKNOWN != 0 || flags & DISPLACED != 0 && version > 1;
    if is_unknown {
        return Err(Damage(format!("a thread with unknown flags {flags:#x}")));
    }
    let person = known.person(step, next)?;
    let count = machine.nodes.len();
    let mut facts = ThreadFacts::idle(
        person.key,
        node_at(machine, node)?,
        count,
        person.cpus.clone(),
    );
    facts.name.clone_from(&person.name);
    facts.pinned = person.pinned;
    facts.is_shared = flags & SHARED != 0;
    if flags & BUSY != 0 {
        facts.busy_ns = cursor.take("a running time")?;
    }
    if flags & READ != 0 {
        counters(cursor, &mut facts.read_bytes)?;
    }
    if flags & WRITTEN != 0 {
        counters(cursor, &mut facts.written_bytes)?;
    }
    if flags & FILES != 0 {
        facts.files = files(cursor)?;
    }
    if flags & DISPLACED != 0 {
        // What a policy of then remembered: no fact.
        node_at(machine, cursor.take("a node")?)?;
    }
    Ok(facts)
}

fn node_at(machine: &Machine, position: u8) -> Result<NodeId, Damage> {
    let node = machine.nodes.get(usize::from(position));
    let unknown = || Damage(format!("a node at position {position}"));
    Ok(node.ok_or_else(unknown)?.id)
}

fn counters(cursor: &mut Cursor<'_>, values: &mut [u64]) -> Result<(), Damage> {
    let mut mask: u64 = cursor.take("counters")?;
    while mask != 0 {
        let node = mask.trailing_zeros() as usize;
        let unknown = || Damage(format!("a counter of a node at position {node}"));
        *values.get_mut(node).ok_or_else(unknown)? = cursor.take("a counter")?;
        mask &= mask - 1;
    }
    Ok(())
}

fn files(cursor: &mut Cursor<'_>) -> Result<Vec<FileUse>, Damage> {
    let count = cursor.count("files of a thread", MAX_FILES)?;
    let mut files = Vec::with_capacity(count);
    for _ in 0..count {
        let record: FileRecord = cursor.take("a file")?;
        files.push(FileUse {
            file: FileKey {
                volume: record.volume,
                inode: record.inode,
            },
            read_bytes: record.read_bytes,
            written_bytes: record.written_bytes,
        });
    }
    Ok(files)
}
