//! What threads do with files, for observers of a session (the steward's windows).
//!
//! While a session is observed, each thread notes in its own slot what it reads and writes of which file. Each inode
//! names the thread that used it last in the window. A thread that finds another thread's name there marks the inode
//! and both threads as sharing (NThread §III-D: a file used by more than one thread in the window). After that the
//! word does not change, so the usual call loads shared lines and stores only to its own.
//!
//! Killing an observer loses nothing: notes go on under the last window number, and the next observer takes a new
//! number.

use crate::format::MAX_POOLS;
use crate::observe::Users;
pub use crate::observe::notes::FileReport;
use crate::observe::notes::{touch, used_by};
use crate::session::layout::*;
use crate::session::slot_ownership::SlotOwner;
use crate::session::slots::Me;
use crate::session::volume::FileReference;
use egeria_media::emulation::AccessKind;
use std::sync::atomic::{AtomicU64, Ordering};

/// One thread that uses the volume.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ThreadReport {
    /// Its place in the session, and how often that was taken before: together they identify the thread.
    pub slot: u32,
    /// See `slot`.
    pub incarnation: u64,
    /// The kernel's process id, in the namespace of the process that wrote it.
    pub process_id: u32,
    /// The kernel's thread id.
    pub thread_id: u32,
    /// Inode of the process's pid namespace; ids of another namespace are not valid here.
    pub pid_namespace: u64,
    /// Bytes read from each pool since the thread came.
    pub read_bytes: [u64; MAX_POOLS],
    /// Bytes written to each pool since the thread came.
    pub written_bytes: [u64; MAX_POOLS],
    /// It works for others, as the threads of a mount do.
    pub on_behalf: bool,
    /// The CPU it ran on when it last used a file while observed.
    pub cpu: Option<u16>,
    /// On an emulated machine: the position of the node it was placed on.
    pub emulated_node: Option<usize>,
    /// On an emulated machine: ns of machine time it was busy since it came, waits included.
    pub emulated_busy_ns: u64,
    /// Of these, computing.
    pub emulated_computed_ns: u64,
    /// On an emulated machine: accesses of pools since it came.
    pub emulated_accesses: u64,
    /// Whether it accesses a pool for others, and stays on its node.
    pub is_delegate: bool,
    /// Whether it used a file in the window that another thread used in that window, too.
    pub is_shared: bool,
    /// Its use of files in the window, unordered.
    pub files: Vec<FileReport>,
}

impl ThreadNotes {
    pub(crate) fn clear(&self) {
        self.shared_window.store(0, Ordering::Relaxed);
        self.cpu.store(0, Ordering::Relaxed);
        self.delegate_of.store(0, Ordering::Relaxed);
        for note in &self.files {
            note.window.store(0, Ordering::Relaxed);
        }
    }
}

impl Users<'_> {
    /// Whether the session is observed.
    pub(crate) fn is_watched(self) -> bool {
        let window = self.volume.session.header().window.load(Ordering::Relaxed);
        window.wrapping_sub(1) < PAUSED - 1
    }

    pub(super) fn report_thread(
        self,
        index: usize,
        slot: &ThreadSlot,
        window: u64,
    ) -> Option<ThreadReport> {
        let report = |owner: SlotOwner| {
            let process = self.volume.session.processes().get(owner.process)?;
            let load = |counters: &[AtomicU64; MAX_POOLS]| {
                std::array::from_fn(|pool| counters[pool].load(Ordering::Relaxed))
            };
            let emulation = self.volume.session.emulation();
            Some(ThreadReport {
                slot: index as u32,
                incarnation: owner.incarnation,
                process_id: process.pid.load(Ordering::Acquire) as u32,
                thread_id: owner.thread_id as u32,
                pid_namespace: process.pid_namespace.load(Ordering::Relaxed),
                read_bytes: load(&slot.counters.read_bytes),
                written_bytes: load(&slot.counters.written_bytes),
                on_behalf: process.on_behalf.load(Ordering::Relaxed) != 0,
                cpu: (slot.notes.cpu.load(Ordering::Relaxed).checked_sub(1))
                    .and_then(|cpu| u16::try_from(cpu).ok()),
                emulated_node: (self.volume.path_mode().is_emulated())
                    .then(|| emulation.placed_node(&slot.emulated))
                    .flatten(),
                emulated_busy_ns: slot.emulated.busy_ns(),
                emulated_computed_ns: slot.emulated.computed_ns(),
                emulated_accesses: slot.emulated.accesses(),
                is_delegate: slot.notes.delegate_of.load(Ordering::Relaxed) != 0,
                is_shared: slot.notes.shared_window.load(Ordering::Relaxed) == window,
                files: report_files(&slot.notes, window),
            })
        };
        let report = slot.ownership().while_held(report).flatten();
        report.filter(|report| report.process_id != 0)
    }

    #[inline]
    pub(super) fn note_use_in(
        self,
        window: u64,
        me: Me<'_>,
        file: FileReference,
        bytes: u64,
        kind: AccessKind,
    ) {
        let touched = file.inode().touched.load(Ordering::Relaxed);
        if touched != used_by(window, me.index) {
            self.touch(window, me, &file.inode().touched);
        }
        if !self.volume.path_mode().is_emulated() {
            // SAFETY: no arguments; a failure is -1.
            let cpu = unsafe { libc::sched_getcpu() } as i64 + 1;
            me.slot.notes.cpu.store(cpu as u64, Ordering::Relaxed);
        }
        let ino = file.ino.0;
        let place = (ino.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 60) as usize % FILES_NOTED;
        let note = &me.slot.notes.files[place];
        let same = note.ino.load(Ordering::Relaxed) == ino
            && note.window.load(Ordering::Relaxed) == window;
        if !same {
            note.begin(window, ino, &me.slot.notes.displaced);
        }
        let counter = match kind {
            AccessKind::Read => &note.read_bytes,
            AccessKind::Write => &note.written_bytes,
        };
        FileNote::add(counter, bytes);
    }

    /// Whether the inode does not name this thread alone in this window.
    #[inline(never)]
    fn touch(self, window: u64, me: Me<'_>, word: &AtomicU64) {
        let mark = |slot: &ThreadSlot| {
            let shared = &slot.notes.shared_window;
            if shared.load(Ordering::Relaxed) != window {
                shared.store(window, Ordering::Relaxed);
            }
        };
        if self.volume.on_behalf.load(Ordering::Relaxed) {
            return;
        }
        touch(word, window, me.index, |index| {
            if let Some(slot) = self.volume.session.threads().get(index) {
                mark(slot);
            }
        });
    }
}

/// In the window's word: the session is not observed.
pub(super) const PAUSED: u64 = 1 << 49;

fn report_files(notes: &ThreadNotes, window: u64) -> Vec<FileReport> {
    let files = notes.files.iter();
    files
        .filter_map(|note| note.report(window, &notes.displaced))
        .collect()
}
