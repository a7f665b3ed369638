//! Stand-ins for names, so that a recording can be sent to other people.
//!
//! A name gets the same stand-in in every window: `program-1` for the first thread of a process and all its threads of
//! the same name, `thread-1` for a thread with a name of its own. Files have no names in a recording, but inode numbers:
//! `file-1` has inode number 1. Numbers of processes and threads stay, so that their owner can find them again.

use std::collections::HashMap;
use std::path::Path;

use egeria_facts::{Facts, FileKey, FileUse, ThreadFacts};
use egeria_machine::{Machine, Source};

/// What a machine is called.
const MACHINE: &str = "machine";
const PROGRAM: &str = "program";
const THREAD: &str = "thread";

/// The names met so far, and their stand-ins.
#[derive(Clone, Debug, Default)]
pub struct StandIns {
    programs: Names,
    threads: Names,
    files: HashMap<FileKey, u64>,
}

/// Names by the order in which they were met, counted from 1.
#[derive(Clone, Debug, Default)]
struct Names(HashMap<String, usize>);

impl Names {
    fn number(&mut self, name: &str) -> usize {
        let next = self.0.len() + 1;
        match self.0.get(name) {
            Some(number) => *number,
            None => *self.0.entry(name.to_owned()).or_insert(next),
        }
    }
}

impl StandIns {
    /// The machine without names: of itself, of the file that describes it, and of its persistent memory.
    #[must_use]
    pub fn machine(machine: &Machine) -> Machine {
        let mut machine = machine.clone();
        machine.name = MACHINE.to_owned();
        machine.source = match machine.source {
            Source::File(_) => Source::File(Path::new("machine.toml").into()),
            Source::Sysfs(_) => Source::Sysfs(Path::new("/").into()),
            Source::Profile(name) => Source::Profile(name),
        };
        machine.warnings.clear();
        let nodes = machine.nodes.iter_mut();
        let regions = nodes.flat_map(|node| node.persistent_regions.iter_mut());
        for (index, region) in regions.enumerate() {
            region.name = format!("region-{}", index + 1);
        }
        machine
    }

    /// The facts with stand-ins for all names.
    #[must_use]
    pub fn facts(&mut self, facts: &Facts) -> Facts {
        let mut facts = facts.clone();
        let firsts = facts
            .window
            .threads
            .iter()
            .filter(|thread| is_first(thread));
        let firsts = firsts.map(|first| (first.key.process_id, first.name.clone()));
        let firsts: HashMap<u32, String> = firsts.collect();
        for thread in &mut facts.window.threads {
            let first = firsts.get(&thread.key.process_id);
            let is_program = first.is_some_and(|first| *first == thread.name);
            thread.name = match is_program {
                _ if thread.name.is_empty() => String::new(),
                true => self.program(&thread.name),
                false => format!("{THREAD}-{}", self.threads.number(&thread.name)),
            };
            self.uses(&mut thread.files);
        }
        for kind in &mut facts.kinds {
            if !kind.command.is_empty() {
                kind.command = self.program(&kind.command);
            }
            self.uses(&mut kind.files);
        }
        for file in &mut facts.files {
            file.file = self.file(file.file);
        }
        facts
    }

    /// The stand-in of a program.
    pub fn program(&mut self, name: &str) -> String {
        format!("{PROGRAM}-{}", self.programs.number(name))
    }

    /// The stand-in of a file. Its volume, or file system, keeps its number.
    pub fn file(&mut self, file: FileKey) -> FileKey {
        let next = self.files.len() as u64 + 1;
        FileKey {
            inode: *self.files.entry(file).or_insert(next),
            ..file
        }
    }

    /// The names met so far, each behind its stand-in: of programs, then of threads.
    pub fn names(&self) -> Vec<(String, String)> {
        let of = |kind: &str, names: &Names| {
            let mut all: Vec<(usize, &String)> = names
                .0
                .iter()
                .map(|(name, number)| (*number, name))
                .collect();
            all.sort_unstable();
            let named = all.into_iter();
            named
                .map(|(number, name)| (format!("{kind}-{number}"), name.clone()))
                .collect::<Vec<(String, String)>>()
        };
        [of(PROGRAM, &self.programs), of(THREAD, &self.threads)].concat()
    }

    /// Files met so far: each with its stand-in, in the order of these.
    pub fn files(&self) -> Vec<(FileKey, FileKey)> {
        let pair = |(file, inode): (&FileKey, &u64)| {
            let stand_in = FileKey {
                inode: *inode,
                ..*file
            };
            (*file, stand_in)
        };
        let mut files: Vec<(FileKey, FileKey)> = self.files.iter().map(pair).collect();
        files.sort_by_key(|(_, stand_in)| stand_in.inode);
        files
    }

    fn uses(&mut self, uses: &mut [FileUse]) {
        for used in uses {
            used.file = self.file(used.file);
        }
    }
}

fn is_first(thread: &ThreadFacts) -> bool {
    thread.key.process_id == thread.key.thread_id
}
