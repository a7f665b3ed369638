//! What is measured, and what is wanted of it.

use std::path::PathBuf;

use egeria_pages::accesses::Way;
use egeria_policy::planner::System;

/// Of a loop of cached reads of 4 KiB, at most.
const MAX_OF_READS: f64 = 0.05;
/// Of a program that is bound by memory, at most.
const MAX_OF_MEMORY: f64 = 0.02;
/// Of a core, for windows over a thousand threads.
const MAX_OF_CORE: f64 = 0.005;

/// What runs while a source is on and off.
#[derive(Clone, PartialEq, Debug)]
pub(super) enum Subject {
    /// Reads cached blocks of a file in this directory.
    Reads(PathBuf),
    /// Reads and writes memory at random.
    Memory,
    /// Many threads that do a little now and then: what looking at them takes.
    Threads,
}

/// What is looked at.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Source {
    /// Where threads run and for how long.
    Threads,
    /// What threads read and write of files.
    Files,
    /// What processes access in memory.
    Memory(Way),
}

#[derive(Clone, PartialEq, Debug)]
pub(super) struct Case {
    pub(super) subject: Subject,
    pub(super) source: Source,
    pub(super) max: f64,
}

impl Source {
    pub(super) fn name(self) -> String {
        match self {
            Source::Threads => "threads".to_owned(),
            Source::Files => "files".to_owned(),
            Source::Memory(way) => format!("memory, {way}"),
        }
    }

    /// The policy whose steward has this source.
    pub(super) fn policy(self) -> System {
        match self {
            Source::Threads => System::Off,
            Source::Files => System::Rl,
            Source::Memory(_) => System::Asymsched,
        }
    }

    pub(super) fn way(self) -> Option<Way> {
        match self {
            Source::Memory(way) => Some(way),
            _ => None,
        }
    }
}

pub(super) fn cases(directories: &[PathBuf]) -> Vec<Case> {
    let case = |subject, source, max| Case {
        subject,
        source,
        max,
    };
    let memory = Way::ALL.map(Source::Memory);
    let reads = directories.iter().map(|directory| {
        let subject = Subject::Reads(directory.clone());
        case(subject, Source::Files, MAX_OF_READS)
    });
    let bound = memory.map(|source| case(Subject::Memory, source, MAX_OF_MEMORY));
    let of_core = [Source::Threads, Source::Files].into_iter().chain(memory);
    let windows = of_core.map(|source| case(Subject::Threads, source, MAX_OF_CORE));
    reads.chain(bound).chain(windows).collect()
}
