//! All facts of one stretch of time.

use serde::{Deserialize, Serialize};

use crate::{AccessWindow, FileFacts, KindFacts, MediumFacts, MemoryTraffic, Window};

/// The facts of one stretch of time. Lists that the source does not fill are empty: the stages that need them then
/// decide nothing.
///
/// Invalid facts still get an answer, which ignores the invalid parts.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Facts {
    /// File I/O per thread and node (NThread).
    pub window: Window,
    /// Accesses to memory per process and node, without those that file I/O makes (AsymSched).
    pub accesses: AccessWindow,
    /// Nodes with persistent memory (PATS, OdinFS), or with known room for data (relocation), in any order; each at most once.
    pub media: Vec<MediumFacts>,
    /// The files used most, and those that lie on full nodes (relocation), in any order; each at most once.
    pub files: Vec<FileFacts>,
    /// Traffic of memories of all programs, where hardware counts it, in any order; each memory of a node at most once.
    #[serde(default)]
    pub memories: Vec<MemoryTraffic>,
    /// Short-lived processes by parent, in any order; each parent at most once.
    #[serde(default)]
    pub kinds: Vec<KindFacts>,
}

impl From<Window> for Facts {
    fn from(window: Window) -> Facts {
        Facts::of(window)
    }
}

impl Facts {
    /// A window of file I/O and nothing else.
    pub fn of(window: Window) -> Facts {
        Facts {
            accesses: AccessWindow {
                number: window.number,
                end_ns: window.start_ns.saturating_add(window.duration_ns),
                ..AccessWindow::default()
            },
            window,
            media: Vec::new(),
            files: Vec::new(),
            memories: Vec::new(),
            kinds: Vec::new(),
        }
    }

    /// The same facts in ascending order, so that sums do not depend on the source.
    pub fn sorted(&self) -> Facts {
        let mut facts = self.clone();
        facts.window.threads.sort_by_key(|thread| thread.key);
        let processes = &mut facts.accesses.processes;
        processes.sort_by_key(|process| process.process);
        for process in processes {
            process.nodes.sort_by_key(|each| each.node);
        }
        facts.media.sort_by_key(|medium| medium.node);
        facts.files.sort_by_key(|file| file.file);
        facts
            .memories
            .sort_by_key(|memory| (memory.node, memory.kind));
        facts.kinds.sort_by_key(|kind| kind.parent);
        facts
    }
}
