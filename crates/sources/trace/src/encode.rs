//! A window to bytes; what seldom changes is said once and then referred to by number.

use std::collections::HashMap;

use egeria_facts::{CpuSet, NodeFacts, ThreadFacts, ThreadKey, Window};
use egeria_machine::{Machine, NodeId};

use crate::code::put;
use crate::record::{
    BUSY, FILES, FileRecord, NodeRecord, PersonRecord, READ, SHARED, ThreadRecord, WRITTEN,
    WindowHead,
};
use crate::{KIND_WINDOW, MAX_CELLS, MAX_CPU_SETS};

/// Gone threads that may be kept in addition to those of a window, before all threads are written again.
const SPARE_PEOPLE: usize = 1024;

/// What readers know so far.
#[derive(Default)]
pub(crate) struct Known {
    cpu_sets: HashMap<CpuSet, u32>,
    people: HashMap<ThreadKey, Person>,
    /// Numbers given to threads: more than `people`, where those changed.
    numbers: usize,
    /// A frame was written with this.
    is_told: bool,
}

struct Person {
    number: u32,
    name: String,
    cpus: CpuSet,
    pinned: bool,
}

/// What a window adds to what is known.
#[derive(Default)]
struct News {
    cpu_sets: Vec<u8>,
    cpu_set_count: u64,
    people: Vec<u8>,
    person_count: u64,
}

/// The frame of a validated window; the error says what there is too much of.
pub(crate) fn window(
    window: &Window,
    machine: &Machine,
    known: &mut Known,
) -> Result<Vec<u8>, String> {
    let (threads, nodes) = (window.threads.len(), machine.nodes.len());
    if threads.saturating_mul(nodes) > MAX_CELLS {
        return Err(format!("{threads} threads on {nodes} nodes are too many"));
    }
    if !known.is_told || known.numbers > 2 * threads + SPARE_PEOPLE {
        *known = Known::default();
    }
    match attempt(window, machine, known) {
        // The window's own sets may fit where those of all the past do not.
        Err(TooManySets) if known.is_told => *known = Known::default(),
        result => return result.map_err(too_many_sets),
    }
    attempt(window, machine, known).map_err(too_many_sets)
}

struct TooManySets;

fn too_many_sets(_: TooManySets) -> String {
    format!("its threads have more than {MAX_CPU_SETS} different sets of allowed CPUs")
}

fn attempt(window: &Window, machine: &Machine, known: &mut Known) -> Result<Vec<u8>, TooManySets> {
    let head = WindowHead {
        fresh: !known.is_told,
        number: window.number,
        start_ns: window.start_ns,
        duration_ns: window.duration_ns,
    };
    let (mut news, mut threads) = (News::default(), Vec::new());
    let mut next = 0;
    for facts in &window.threads {
        let number = i64::from(known.number_of(facts, &mut news)?);
        thread(facts, machine, number - next, &mut threads);
        next = number + 1;
    }
    let mut bytes = vec![KIND_WINDOW];
    put(&mut bytes, &head);
    for facts in &window.nodes {
        put(&mut bytes, &NodeRecord::of(facts));
    }
    put(&mut bytes, &news.cpu_set_count);
    bytes.append(&mut news.cpu_sets);
    put(&mut bytes, &news.person_count);
    bytes.append(&mut news.people);
    put(&mut bytes, &(window.threads.len() as u64));
    bytes.append(&mut threads);
    known.is_told = true;
    Ok(bytes)
}

impl Known {
    /// The number of a thread as it is now; the thread is written if it is new or has changed.
    fn number_of(&mut self, facts: &ThreadFacts, news: &mut News) -> Result<u32, TooManySets> {
        let is_same = |person: &&Person| {
            person.name == facts.name
                && person.cpus == facts.allowed_cpus
                && person.pinned == facts.pinned
        };
        if let Some(person) = self.people.get(&facts.key).filter(is_same) {
            return Ok(person.number);
        }
        let cpu_set = self.cpu_set_of(&facts.allowed_cpus, news)?;
        let record = PersonRecord {
            process_id: facts.key.process_id,
            thread_id: facts.key.thread_id,
            start_ticks: facts.key.start_ticks,
            cpu_set,
            pinned: facts.pinned,
            name: &facts.name,
        };
        put(&mut news.people, &record);
        news.person_count += 1;
        let number = u32::try_from(self.numbers).expect("a window's threads are bounded");
        self.numbers += 1;
        let person = Person {
            number,
            name: facts.name.clone(),
            cpus: facts.allowed_cpus.clone(),
            pinned: facts.pinned,
        };
        self.people.insert(facts.key, person);
        Ok(number)
    }

    fn cpu_set_of(&mut self, cpus: &CpuSet, news: &mut News) -> Result<u32, TooManySets> {
        if let Some(&number) = self.cpu_sets.get(cpus) {
            return Ok(number);
        }
        if self.cpu_sets.len() >= MAX_CPU_SETS {
            return Err(TooManySets);
        }
        let number = self.cpu_sets.len() as u32;
        self.cpu_sets.insert(cpus.clone(), number);
        cpu_set(cpus, &mut news.cpu_sets);
        news.cpu_set_count += 1;
        Ok(number)
    }

    /// What was encoded last never reached the file: say everything afresh.
    pub(crate) fn forget(&mut self) {
        *self = Known::default();
    }
}

/// Runs of CPUs: distance from the end of the run before, and how many follow the first.
fn cpu_set(cpus: &CpuSet, bytes: &mut Vec<u8>) {
    let mut runs: Vec<(u16, u16)> = Vec::new();
    for cpu in cpus.iter() {
        match runs.last_mut() {
            Some((first, more)) if *first + *more + 1 == cpu.0 => *more += 1,
            _ => runs.push((cpu.0, 0)),
        }
    }
    put(bytes, &(runs.len() as u64));
    let mut end = 0;
    for (first, more) in runs {
        put(bytes, &(first - end, more));
        end = first + more;
    }
}

fn thread(facts: &ThreadFacts, machine: &Machine, step: i64, bytes: &mut Vec<u8>) {
    let flag = |flag, is_set| if is_set { flag } else { 0 };
    let flags = flag(BUSY, facts.busy_ns > 0)
        | flag(READ, facts.read_bytes.iter().any(|&bytes| bytes > 0))
        | flag(WRITTEN, facts.written_bytes.iter().any(|&bytes| bytes > 0))
        | flag(FILES, !facts.files.is_empty())
        | flag(SHARED, facts.is_shared);
    let node = position(machine, facts.node);
    put(bytes, &ThreadRecord { step, flags, node });
    if flags & BUSY != 0 {
        put(bytes, &facts.busy_ns);
    }
    if flags & READ != 0 {
        counters(&facts.read_bytes, bytes);
    }
    if flags & WRITTEN != 0 {
        counters(&facts.written_bytes, bytes);
    }
    if flags & FILES != 0 {
        files(facts, bytes);
    }
}

fn files(facts: &ThreadFacts, bytes: &mut Vec<u8>) {
    put(bytes, &(facts.files.len() as u64));
    for each in &facts.files {
        let record = FileRecord {
            volume: each.file.volume,
            inode: each.file.inode,
            read_bytes: each.read_bytes,
            written_bytes: each.written_bytes,
        };
        put(bytes, &record);
    }
}

/// A mask of the nodes with a counter that is not 0 (there are at most 64), and those counters.
fn counters(values: &[u64], bytes: &mut Vec<u8>) {
    let is_set = |&(_, &value): &(usize, &u64)| value > 0;
    let set = || values.iter().enumerate().filter(is_set);
    let mask = set().fold(0_u64, |mask, (node, _)| mask | 1 << node);
    put(bytes, &mask);
    for (_, value) in set() {
        put(bytes, value);
    }
}

fn position(machine: &Machine, node: NodeId) -> u8 {
    let index = machine.index_of(node).expect("the window was validated");
    u8::try_from(index).expect("a machine has at most 64 nodes")
}

impl NodeRecord {
    fn of(facts: &NodeFacts) -> NodeRecord {
        NodeRecord {
            has_pool: facts.has_pool,
            read_bytes: facts.read_bytes,
            written_bytes: facts.written_bytes,
            busy_ns: facts.busy_ns,
        }
    }
}
