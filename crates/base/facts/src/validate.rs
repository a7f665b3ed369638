//! Limits of every window, whatever its source.

use std::collections::HashSet;

use egeria_machine::Machine;

use crate::{
    Facts, FactsError, FileFacts, FileUse, KindFacts, MAX_KINDS, MAX_NAME_CHARS, Measured,
    MediumFacts, NodeFacts, ThreadFacts, Window, WindowError,
};

/// Longest window, ns: a day.
pub const MAX_DURATION_NS: u64 = 24 * 3600 * 1_000_000_000;
/// Most threads in a window.
pub const MAX_THREADS: usize = 1 << 20;
/// Most files noted per thread.
pub const MAX_FILES: usize = 64;
/// Most files described in one window.
pub const MAX_FILE_FACTS: usize = 1 << 16;
/// Largest counter, bytes or ns: exact as `f64`, and a day at 100 GB/s.
pub const MAX_COUNTER: u64 = 1 << 53;

impl Window {
    /// Checks everything a reader relies on: use it on every window that came from outside.
    ///
    /// # Errors
    /// The first thing that is wrong, in one line.
    pub fn validate(&self, machine: &Machine) -> Result<(), WindowError> {
        window(self, machine)
    }
}

impl Facts {
    /// Checks everything a reader relies on: use it on all facts that came from outside.
    ///
    /// # Errors
    /// The first thing that is wrong, in one line.
    pub fn validate(&self, machine: &Machine) -> Result<(), FactsError> {
        self.window.validate(machine)?;
        self.accesses.validate(machine)?;
        for (index, medium) in self.media.iter().enumerate() {
            let others = &self.media[..index];
            medium.validate(machine)?;
            if others.iter().any(|other| other.node == medium.node) {
                return Err(FactsError::MediumTwice { node: medium.node });
            }
        }
        for (index, memory) in self.memories.iter().enumerate() {
            let node = memory.node;
            if machine.index_of(node).is_none() {
                return Err(FactsError::MediumNowhere { node });
            }
            let mut others = self.memories[..index].iter();
            if others.any(|other| (other.node, other.kind) == (node, memory.kind)) {
                return Err(FactsError::MediumTwice { node });
            }
            let rates = [memory.read_bytes_s, memory.written_bytes_s];
            if !rates.iter().all(|rate| rate.is_finite() && *rate >= 0.0) {
                return Err(FactsError::Medium { node });
            }
        }
        if self.files.len() > MAX_FILE_FACTS {
            return Err(FactsError::TooManyFiles {
                count: self.files.len(),
                most: MAX_FILE_FACTS,
            });
        }
        let mut seen = HashSet::with_capacity(self.files.len());
        for file in &self.files {
            file.validate(machine)?;
            if !seen.insert(file.file) {
                return Err(FactsError::FileTwice { file: file.file });
            }
        }
        if self.kinds.len() > MAX_KINDS {
            return Err(FactsError::TooManyKinds {
                count: self.kinds.len(),
                most: MAX_KINDS,
            });
        }
        let mut seen = HashSet::with_capacity(self.kinds.len());
        for kind in &self.kinds {
            if !seen.insert(kind.parent) || !kind.is_valid(machine) {
                return Err(FactsError::Kind {
                    parent: kind.parent,
                });
            }
        }
        Ok(())
    }
}

impl KindFacts {
    fn is_valid(&self, machine: &Machine) -> bool {
        let nodes = machine.nodes.len();
        let of_files = self.files.iter();
        let of_files = of_files.flat_map(|each| [&each.read_bytes, &each.written_bytes]);
        let mut counters = self.read_bytes.iter().chain(&self.written_bytes);
        self.node
            .is_none_or(|node| machine.index_of(node).is_some())
            && self.command.chars().count() <= MAX_NAME_CHARS
            && !self.command.chars().any(char::is_control)
            && self.read_bytes.len() <= nodes
            && self.written_bytes.len() <= nodes
            && self.files.len() <= MAX_FILES
            && counters.all(|bytes| *bytes <= MAX_COUNTER)
            && self.busy_ns <= MAX_COUNTER
            && self.local_bytes <= MAX_COUNTER
            && of_files.into_iter().all(|bytes| *bytes <= MAX_COUNTER)
    }
}

impl FileFacts {
    /// Whether the facts fit this machine.
    ///
    /// # Errors
    /// The first thing that does not.
    fn validate(&self, machine: &Machine) -> Result<(), FactsError> {
        let (file, nodes) = (self.file, machine.nodes.len());
        let rows = self.read_bytes.iter().map(Vec::len);
        let lengths = [
            self.bytes_on.len(),
            self.read_bytes.len(),
            self.replicas.len(),
        ];
        if lengths.into_iter().chain(rows).any(|length| length > nodes) {
            return Err(FactsError::FileNodes { file, nodes });
        }
        let counters = self.bytes_on.iter().chain(self.read_bytes.iter().flatten());
        let mut counters = counters.chain([&self.bytes, &self.written_bytes]);
        match counters.find(|value| **value > MAX_COUNTER) {
            None => Ok(()),
            Some(&value) => Err(FactsError::FileCounter {
                file,
                value,
                most: MAX_COUNTER,
            }),
        }
    }
}

impl MediumFacts {
    /// Whether the facts fit this machine.
    ///
    /// # Errors
    /// The first thing that does not.
    fn validate(&self, machine: &Machine) -> Result<(), FactsError> {
        let node = self.node;
        if machine.index_of(node).is_none() {
            return Err(FactsError::MediumNowhere { node });
        }
        let Measured {
            mix,
            pm_bytes_s,
            dram_bytes_s,
            ..
        } = self.measured;
        let rates = [mix.mean_bytes, pm_bytes_s, dram_bytes_s.unwrap_or(0.0)];
        let are_rates = rates.iter().all(|rate| rate.is_finite() && *rate >= 0.0);
        if are_rates && (0.0..=1.0).contains(&mix.write_share) {
            Ok(())
        } else {
            Err(FactsError::Medium { node })
        }
    }
}

fn window(window: &Window, machine: &Machine) -> Result<(), WindowError> {
    duration(window)?;
    at_most(window, "threads", window.threads.len(), MAX_THREADS)?;
    let ids = window.nodes.iter().map(|facts| facts.node);
    if !ids.eq(machine.nodes.iter().map(|node| node.id)) {
        return Err(WindowError::OtherMachine {
            window: window.number,
        });
    }
    for facts in &window.nodes {
        node(window, facts)?;
    }
    let mut seen = HashSet::with_capacity(window.threads.len());
    for facts in &window.threads {
        thread(window, facts, machine)?;
        if !seen.insert(facts.key) {
            return Err(WindowError::Twice {
                window: window.number,
                thread: facts.key,
            });
        }
    }
    Ok(())
}

fn duration(window: &Window) -> Result<(), WindowError> {
    if (1..=MAX_DURATION_NS).contains(&window.duration_ns) {
        return Ok(());
    }
    Err(WindowError::Duration {
        window: window.number,
        duration_ns: window.duration_ns,
        max_ns: MAX_DURATION_NS,
    })
}

fn at_most(
    window: &Window,
    what: &'static str,
    count: usize,
    most: usize,
) -> Result<(), WindowError> {
    if count <= most {
        return Ok(());
    }
    Err(WindowError::TooMany {
        window: window.number,
        what,
        count,
        most,
    })
}

fn node(window: &Window, facts: &NodeFacts) -> Result<(), WindowError> {
    let whose = || format!("node {}", facts.node.0);
    counters(
        window,
        whose,
        &[facts.read_bytes, facts.written_bytes, facts.busy_ns],
    )
}

fn thread(window: &Window, facts: &ThreadFacts, machine: &Machine) -> Result<(), WindowError> {
    let (number, thread) = (window.number, facts.key);
    if machine.index_of(facts.node).is_none() {
        return Err(WindowError::NoSuchNode {
            window: number,
            thread,
            node: facts.node,
        });
    }
    at_most(window, "files of a thread", facts.files.len(), MAX_FILES)?;
    let letters = facts.name.chars().count();
    at_most(window, "letters in a name", letters, MAX_NAME_CHARS)?;
    if facts.name.chars().any(char::is_control) {
        return Err(WindowError::Name {
            window: number,
            thread,
        });
    }
    let whose = || thread.to_string();
    counters(window, whose, &[facts.busy_ns])?;
    for FileUse {
        read_bytes,
        written_bytes,
        ..
    } in &facts.files
    {
        counters(window, whose, &[*read_bytes, *written_bytes])?;
    }
    for bytes in [&facts.read_bytes, &facts.written_bytes] {
        let (count, nodes) = (bytes.len(), machine.nodes.len());
        if count != nodes {
            return Err(WindowError::Counters {
                window: number,
                thread,
                count,
                nodes,
            });
        }
        counters(window, whose, bytes)?;
    }
    Ok(())
}

fn counters(
    window: &Window,
    whose: impl Fn() -> String,
    values: &[u64],
) -> Result<(), WindowError> {
    match values.iter().find(|&&value| value > MAX_COUNTER) {
        None => Ok(()),
        Some(&value) => Err(WindowError::Counter {
            window: window.number,
            whose: whose(),
            value,
            most: MAX_COUNTER,
        }),
    }
}
