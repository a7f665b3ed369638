//! What was counted of a file goes to the threads that did it; of processes that were gone too soon, to their kind.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use egeria_bpf::FileUse;
use egeria_facts::{
    Facts, FileFacts, FileKey, KindFacts, MAX_COUNTER, MAX_FILES, Window, printable_name,
};
use egeria_machine::{Machine, NodeId};

use crate::NodeBytes;

/// A thread of the window, or a kind of the facts, by position.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(crate) enum User {
    Thread(usize),
    Kind(usize),
}

/// One use of a file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Used {
    pub(crate) user: User,
    /// Its process is in the window.
    pub(crate) is_there: bool,
    pub(crate) counted: FileUse,
}

/// Finds out what used a file.
pub(crate) struct Users<'a> {
    threads: HashMap<(u32, u32), usize>,
    /// By the process that is the parent; and whether the parent is credited with what they do.
    kinds: HashMap<u32, (usize, bool)>,
    /// Processes of the window before, if they were looked at.
    before: Option<&'a HashSet<u32>>,
    /// What processes of kinds moved that are not in the window, by kind and process.
    unseen: HashSet<(usize, u32)>,
    /// Bytes moved by kind and name of the process.
    names: HashMap<(usize, [u8; 16]), u64>,
}

impl<'a> Users<'a> {
    pub(crate) fn new(
        window: &Window,
        kinds: &[KindFacts],
        before: Option<&'a HashSet<u32>>,
    ) -> Users<'a> {
        let ids = window.threads.iter();
        let ids = ids.map(|thread| (thread.key.process_id, thread.key.thread_id));
        let parents = kinds.iter().enumerate();
        let parents = parents.map(|(at, kind)| (kind.parent.process_id, (at, kind.is_credited())));
        Users {
            threads: ids.enumerate().map(|(at, ids)| (ids, at)).collect(),
            kinds: parents.collect(),
            before,
            unseen: HashSet::new(),
            names: HashMap::new(),
        }
    }

    /// A process that has just begun below the parent of a kind, or ended, is of that kind; `None` for what is not
    /// watched.
    pub(crate) fn of(&mut self, counted: &FileUse) -> Option<Used> {
        let process = counted.process_id;
        let thread = self.threads.get(&(process, counted.thread_id)).copied();
        let was_there = self.before.is_none_or(|before| before.contains(&process));
        let is_there = thread.is_some() || self.threads.contains_key(&(process, process));
        let used = |user| Used {
            user,
            is_there,
            counted: *counted,
        };
        let ancestors = counted.ancestors.iter();
        let mut kinds = ancestors.filter_map(|process| self.kinds.get(process));
        match (thread, kinds.next().copied()) {
            (Some(at), None) => Some(used(User::Thread(at))),
            (Some(at), Some((_, is_credited))) if was_there || !is_credited => {
                Some(used(User::Thread(at)))
            }
            (_, Some(_)) if is_there && was_there => None,
            (_, Some((at, _))) => {
                if !is_there {
                    self.unseen.insert((at, process));
                }
                let bytes = self.names.entry((at, counted.name)).or_default();
                *bytes = bytes.saturating_add(moved(counted));
                Some(used(User::Kind(at)))
            }
            (None, None) => None,
        }
    }

    /// What is known of kinds by now: how many processes, and what those are called that moved most.
    pub(crate) fn describe(self, kinds: &mut [KindFacts]) {
        for (at, _) in self.unseen {
            kinds[at].seen = kinds[at].seen.saturating_add(1);
        }
        let mut names: Vec<_> = self.names.into_iter().collect();
        names.sort_by_key(|(name, bytes)| (*bytes, *name));
        for ((at, name), _) in names {
            kinds[at].command = printable_name(name.split(|byte| *byte == 0).next().unwrap_or(&[]));
        }
    }
}

/// The processes of a window, if the next one needs them.
pub(crate) fn processes(window: &Window, kinds: &[KindFacts]) -> Option<HashSet<u32>> {
    let processes = window.threads.iter().map(|thread| thread.key.process_id);
    (!kinds.is_empty()).then(|| processes.collect())
}

/// Bytes read and written.
pub(crate) fn moved(counted: &FileUse) -> u64 {
    counted.read_bytes.saturating_add(counted.written_bytes)
}

/// Where a file is: its size, and what is cached of it on each node.
pub(crate) struct Lies<'a> {
    pub(crate) file: FileKey,
    pub(crate) bytes: u64,
    pub(crate) by_node: &'a NodeBytes,
}

/// Adds what was done with a file to the bytes by node of threads and kinds.
pub(crate) fn credit(
    machine: &Machine,
    facts: &mut Facts,
    lies: &Lies<'_>,
    uses: &[Used],
) -> Option<FileFacts> {
    let nodes = machine.nodes.len();
    let mut of_file = FileFacts {
        file: lies.file,
        bytes: lies.bytes.min(MAX_COUNTER),
        bytes_on: vec![0; nodes],
        read_bytes: vec![vec![0; nodes]; nodes],
        written_bytes: 0,
        replicas: Vec::new(),
    };
    spread(machine, lies.by_node, &mut of_file.bytes_on);
    let first = uses.first()?.user;
    let is_shared = uses.iter().any(|each| each.user != first);
    for Used { user, counted, .. } in uses {
        let read = lies.by_node.scaled_to(counted.read_bytes);
        let written = lies.by_node.scaled_to(counted.written_bytes);
        let of_user = egeria_facts::FileUse {
            file: lies.file,
            read_bytes: counted.read_bytes,
            written_bytes: counted.written_bytes,
        };
        let node = match *user {
            User::Thread(at) => {
                let thread = facts.window.threads.get_mut(at)?;
                spread(machine, &read, &mut thread.read_bytes);
                spread(machine, &written, &mut thread.written_bytes);
                thread.is_shared |= is_shared;
                thread.files.push(of_user);
                thread.node
            }
            User::Kind(at) => {
                let kind = facts.kinds.get_mut(at)?;
                let node = NodeId(u16::try_from(counted.node).unwrap_or(u16::MAX));
                spread(machine, &read, &mut kind.read_bytes);
                spread(machine, &written, &mut kind.written_bytes);
                for (other, bytes) in read.iter().chain(written.iter()) {
                    let is_local = other == node;
                    kind.local_bytes = bounded(kind.local_bytes, u64::from(is_local) * bytes);
                }
                add_use(&mut kind.files, of_user);
                node
            }
        };
        let reader = machine.index_of(node);
        if let Some(row) = reader.and_then(|reader| of_file.read_bytes.get_mut(reader)) {
            spread(machine, &read, row);
        }
        of_file.written_bytes = bounded(of_file.written_bytes, counted.written_bytes);
    }
    Some(of_file)
}

fn add_use(files: &mut Vec<egeria_facts::FileUse>, more: egeria_facts::FileUse) {
    match files.iter_mut().find(|known| known.file == more.file) {
        Some(known) => {
            known.read_bytes = bounded(known.read_bytes, more.read_bytes);
            known.written_bytes = bounded(known.written_bytes, more.written_bytes);
        }
        None => files.push(more),
    }
}

/// The files used most first, and no more of them than facts may have.
pub(crate) fn keep_busiest(files: &mut Vec<egeria_facts::FileUse>) {
    files.sort_by_key(|each| {
        let moved = each.read_bytes.saturating_add(each.written_bytes);
        (Reverse(moved), each.file)
    });
    files.truncate(MAX_FILES);
}

/// Kinds are where their processes moved most bytes. `used` are all uses of the window.
pub(crate) fn find_nodes<'a>(
    machine: &Machine,
    kinds: &mut [KindFacts],
    used: impl Iterator<Item = &'a Used>,
) {
    let mut moved_on = vec![vec![0_u64; machine.nodes.len()]; kinds.len()];
    for each in used {
        let node = NodeId(u16::try_from(each.counted.node).unwrap_or(u16::MAX));
        if let (User::Kind(at), Some(node)) = (each.user, machine.index_of(node)) {
            moved_on[at][node] = bounded(moved_on[at][node], moved(&each.counted));
        }
    }
    for (kind, moved_on) in kinds.iter_mut().zip(moved_on) {
        let most = moved_on.iter().enumerate().rev();
        let most = most.max_by_key(|(_, bytes)| **bytes);
        let most = most.filter(|(_, bytes)| **bytes > 0);
        kind.node = most.map(|(node, _)| machine.nodes[node].id);
    }
}

pub(crate) fn bounded(one: u64, other: u64) -> u64 {
    one.saturating_add(other).min(MAX_COUNTER)
}

fn spread(machine: &Machine, bytes: &NodeBytes, by_node: &mut [u64]) {
    for (node, bytes) in bytes.iter() {
        let at = |node: NodeId| machine.index_of(node);
        if let Some(sum) = at(node).and_then(|at| by_node.get_mut(at)) {
            *sum = bounded(*sum, bytes);
        }
    }
}

/// The traffic of each node is the sum of that of threads and kinds.
pub(crate) fn sum_nodes(window: &mut Window, kinds: &[KindFacts]) {
    for (at, node) in window.nodes.iter_mut().enumerate() {
        let of = |by_node: &[u64]| by_node.get(at).copied().unwrap_or(0);
        let threads = &window.threads;
        let read = threads.iter().map(|thread| of(&thread.read_bytes));
        let written = threads.iter().map(|thread| of(&thread.written_bytes));
        let read = read.chain(kinds.iter().map(|kind| of(&kind.read_bytes)));
        let written = written.chain(kinds.iter().map(|kind| of(&kind.written_bytes)));
        node.read_bytes = read.fold(0, bounded);
        node.written_bytes = written.fold(0, bounded);
    }
}
