//! What no window may say, wherever it came from.

use std::collections::HashSet;

use egeria_machine::Machine;

use crate::{FileUse, MAX_NAME_CHARS, NodeFacts, ThreadFacts, Window, WindowError};

/// Longest window, ns: a day.
pub const MAX_DURATION_NS: u64 = 24 * 3600 * 1_000_000_000;
/// Most threads in a window.
pub const MAX_THREADS: usize = 1 << 20;
/// Most files noted per thread.
pub const MAX_FILES: usize = 64;
/// Largest counter, bytes or ns: exact as `f64`, and a day at 100 GB/s.
pub const MAX_COUNTER: u64 = 1 << 53;

pub(crate) fn window(window: &Window, machine: &Machine) -> Result<(), WindowError> {
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
        most_ns: MAX_DURATION_NS,
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
    for node in [Some(facts.node), facts.displaced_from]
        .into_iter()
        .flatten()
    {
        if machine.index_of(node).is_none() {
            return Err(WindowError::NoSuchNode {
                window: number,
                thread,
                node,
            });
        }
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
