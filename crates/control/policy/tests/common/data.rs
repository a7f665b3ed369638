//! Files under the fluid model: where their data is decides where threads read, and data moves as the planner says.
#![allow(
    dead_code,
    reason = "every test program uses its own part of the helpers"
)]

use egeria_facts::{Facts, FileFacts};
use egeria_facts::{FileKey, FileUse, Window};
use egeria_machine::Machine;
use egeria_policy::planner::{Decision, Relocate, RelocationStep};

use crate::common::SECOND_NS;
use crate::common::fluid::Fluid;

/// One file: where it is, and who holds a copy.
#[derive(Clone, Debug)]
pub struct File {
    pub bytes: f64,
    pub on: Vec<f64>,
    pub replicas: Vec<bool>,
}

/// The threads of a machine and the files they read; worker `n` reads file `uses[n]`.
#[derive(Clone, Debug)]
pub struct World {
    pub fluid: Fluid,
    pub files: Vec<File>,
    pub uses: Vec<usize>,
    /// Copies under way, and what is left of them, bytes.
    copies: Vec<(RelocationStep, f64)>,
}

pub fn key(file: usize) -> FileKey {
    FileKey {
        volume: 0,
        inode: file as u64,
    }
}

impl World {
    pub fn new(fluid: Fluid, files: Vec<File>, uses: Vec<usize>) -> World {
        World {
            fluid,
            files,
            uses,
            copies: Vec::new(),
        }
    }

    /// The next window: copies go on for a second, threads do as they can.
    pub fn facts(&mut self) -> Facts {
        self.copy();
        for (worker, file) in self.fluid.workers.iter_mut().zip(&self.uses) {
            let file = &self.files[*file];
            worker.data = if file.replicas[worker.node] {
                vec![0.0; file.on.len()]
            } else {
                file.on.iter().map(|bytes| bytes / file.bytes).collect()
            };
            if file.replicas[worker.node] {
                worker.data[worker.node] = 1.0;
            }
        }
        let mut window = self.fluid.window();
        window.start_ns = window.number * SECOND_NS;
        for (thread, file) in window.threads.iter_mut().zip(&self.uses) {
            thread.files = vec![FileUse {
                file: key(*file),
                read_bytes: thread.read_total(),
                written_bytes: 0,
            }];
        }
        let files = (0..self.files.len()).map(|file| self.file_facts(file, &window));
        let files = files.collect();
        Facts {
            files,
            ..Facts::of(window)
        }
    }

    /// Everything is done as decided.
    pub fn act(&mut self, decision: &Decision) {
        self.fluid.act(&decision.threads);
        for step in &decision.relocations {
            let file = &mut self.files[step.file.inode as usize];
            match step.action {
                Relocate::Drop { on } => {
                    file.replicas[index(&self.fluid.machine, on)] = false;
                }
                _ => self.copies.push((step.clone(), step.bytes as f64)),
            }
        }
    }

    /// Bytes/s of all threads.
    pub fn bytes_s(&mut self) -> f64 {
        let window = self.facts().window;
        (window.read_total() + window.written_total()) as f64
    }

    fn copy(&mut self) {
        for (step, left) in &mut self.copies {
            let bytes = left.min(step.bytes_s);
            *left -= bytes;
            let file = &mut self.files[step.file.inode as usize];
            match step.action {
                Relocate::Move { from, to } => {
                    file.on[index(&self.fluid.machine, from)] -= bytes;
                    file.on[index(&self.fluid.machine, to)] += bytes;
                }
                Relocate::Replicate { to, .. } => {
                    file.replicas[index(&self.fluid.machine, to)] |= *left <= 0.0;
                }
                Relocate::Drop { .. } => {}
            }
        }
        self.copies.retain(|(_, left)| *left > 0.0);
    }

    fn file_facts(&self, file: usize, window: &Window) -> FileFacts {
        let nodes = self.fluid.machine.nodes.len();
        let mut read_bytes = vec![vec![0; nodes]; nodes];
        let users = self.uses.iter().zip(&window.threads);
        for (_, thread) in users.filter(|(used, _)| **used == file) {
            let row = &mut read_bytes[index(&self.fluid.machine, thread.node)];
            row.iter_mut()
                .zip(&thread.read_bytes)
                .for_each(|(sum, read)| *sum += read);
        }
        let facts = &self.files[file];
        FileFacts {
            file: key(file),
            bytes: facts.bytes as u64,
            bytes_on: facts.on.iter().map(|bytes| *bytes as u64).collect(),
            read_bytes,
            written_bytes: 0,
            replicas: facts.replicas.clone(),
        }
    }
}

/// A file on one node.
pub fn file_on(nodes: usize, node: usize, bytes: f64) -> File {
    let mut on = vec![0.0; nodes];
    on[node] = bytes;
    File {
        bytes,
        on,
        replicas: vec![false; nodes],
    }
}

fn index(machine: &Machine, node: egeria_machine::NodeId) -> usize {
    machine.index_of(node).expect("a node of the machine")
}
