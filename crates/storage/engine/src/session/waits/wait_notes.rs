//! Long waits for an inode, noted in the session by processes that have no log, mainly programs under the preload
//! library. A process with a log, the mount, reads the notes at intervals and reports them.
//!
//! There are few places, and they are overwritten in turn: an operator needs to find one line, not every line. Every
//! attached process can write anything here. So a reader only checks that numbers are in their ranges, reads each
//! place once and reports it. It asks the kernel nothing about these ids.

use crate::format::{INODES_PER_BLOCK, inode_place};
use crate::session::Waits;
use crate::session::layout::{WAIT_NOTES, WaitNote};
use crate::session::volume::Severity;
use std::fmt;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// How long a thread waits for an inode before the wait is reported.
pub(in crate::session) const WAIT_UNREPORTED: Duration = Duration::from_secs(1);
/// No process or thread has a larger id (the kernel's `PID_MAX_LIMIT`).
const MAX_ID: u64 = 1 << 22;

/// A wait for an inode that is long.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::session) struct LongWait {
    pub(in crate::session) ino: u64,
    /// What the thread waited for does there.
    pub(in crate::session) what: Awaited,
    /// The thread waited for.
    pub(in crate::session) thread: u64,
    /// Its process; 0 if not known.
    pub(in crate::session) process: u64,
}

/// What the awaited thread is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::session) enum Awaited {
    /// It changes the inode.
    Change = 1,
    /// It writes to blocks of it in place.
    Write = 2,
    /// It completes what a killed process began.
    Recovery = 3,
}

impl Awaited {
    fn of(word: u64) -> Option<Awaited> {
        let all = [Awaited::Change, Awaited::Write, Awaited::Recovery];
        all.into_iter().find(|what| *what as u64 == word)
    }
}

impl fmt::Display for LongWait {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "inode {} is waited for: thread {}",
            self.ino, self.thread
        )?;
        if self.process > 0 {
            write!(formatter, " of process {}", self.process)?;
        }
        let what = match self.what {
            Awaited::Change => "is changing it",
            Awaited::Write => "is writing to it",
            Awaited::Recovery => "is putting right what a killed process left there",
        };
        let seconds = WAIT_UNREPORTED.as_secs();
        write!(
            formatter,
            " {what} and has not gone on for {seconds} s; if it is stopped, continue or end it"
        )
    }
}

impl Waits<'_> {
    /// Report a long wait of this thread, or note it for a process that can report.
    pub(in crate::session) fn report_long_wait(self, wait: &LongWait) {
        if self.volume.reporter.get().is_some() {
            self.volume.report(Severity::Warning, &wait.to_string());
            return;
        }
        let notes = &self.volume.session.header().wait_notes;
        let number = notes.count.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let note = &notes.places[number as usize % WAIT_NOTES];
        note.number.store(0, Ordering::Release);
        note.ino.store(wait.ino, Ordering::Release);
        note.what.store(wait.what as u64, Ordering::Release);
        note.thread.store(wait.thread, Ordering::Release);
        note.process.store(wait.process, Ordering::Release);
        note.number.store(number.max(1), Ordering::Release);
    }

    /// Skip earlier notes: their waits may have ended long ago.
    pub(crate) fn pass_over_noted_waits(self) {
        if let Ok(mut seen) = self.volume.noted_waits.lock() {
            let places = self.volume.session.header().wait_notes.places.iter();
            for (note, seen) in places.zip(seen.iter_mut()) {
                *seen = note.number.load(Ordering::Acquire);
            }
        }
    }

    /// The content of a note, if it is valid.
    pub(in crate::session) fn read_note(self, note: &WaitNote) -> Option<LongWait> {
        let (ino, what) = (
            note.ino.load(Ordering::Acquire),
            note.what.load(Ordering::Acquire),
        );
        let wait = LongWait {
            ino,
            what: Awaited::of(what)?,
            thread: note.thread.load(Ordering::Acquire),
            process: note.process.load(Ordering::Acquire),
        };
        let (pool, index) = inode_place(ino)?;
        let geometry = self.volume.geometry_of(pool)?;
        let is_inode = index < geometry.inode_blocks * INODES_PER_BLOCK;
        let are_ids = (1..=MAX_ID).contains(&wait.thread) && wait.process <= MAX_ID;
        (is_inode && are_ids).then_some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::session::Waits;
    use crate::session::volume::Volume;
    use crate::test_volume::new_volume;
    use crate::{AttachMode, AttachOptions};
    use proptest::prelude::*;
    use std::sync::mpsc::{Receiver, channel};
    use std::sync::{Arc, Mutex};

    const WAIT: LongWait = LongWait {
        ino: 1,
        what: Awaited::Change,
        thread: 4712,
        process: 4711,
    };

    /// Lines that a volume reports.
    fn reports_of(volume: &Volume) -> Receiver<String> {
        let (sender, lines) = channel();
        let sender = Mutex::new(sender);
        volume.set_reporter(Box::new(move |_, line| {
            let _ = sender.lock().expect("one at a time").send(line.to_owned());
        }));
        lines
    }

    /// A volume attached without a log and one with a log, and the reported lines. In one process, which attaches once
    /// for either mode.
    fn two(directory: &tempfile::TempDir) -> (Arc<Volume>, Arc<Volume>, Receiver<String>) {
        let (without, pool) = new_volume(directory);
        let options = AttachOptions::default();
        let with = Volume::attach(&pool, AttachMode::ReadOnly, &options).expect("a second");
        let lines = reports_of(&with);
        (without, with, lines)
    }

    #[test]
    fn a_wait_that_one_process_notes_another_reports_once() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let (without, with, lines) = two(&directory);
        Waits::of(&without).report_long_wait(&WAIT);
        Waits::of(&without).report_long_wait(&WAIT);
        with.report_noted_waits();
        with.report_noted_waits();
        let all: Vec<String> = lines.try_iter().collect();
        let line = "inode 1 is waited for: thread 4712 of process 4711 is changing it and has not gone on for 1 s; \
             if it is stopped, continue or end it";
        assert_eq!(all, [line]);
        for thread in 1..=3 * WAIT_NOTES as u64 {
            Waits::of(&without).report_long_wait(&LongWait { thread, ..WAIT });
        }
        with.report_noted_waits();
        assert_eq!(lines.try_iter().count(), WAIT_NOTES, "bounded");
    }

    #[test]
    fn waits_before_a_process_reports_are_not_its_news() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let (volume, _) = new_volume(&directory);
        Waits::of(&volume).report_long_wait(&WAIT);
        let lines = reports_of(&volume);
        volume.report_noted_waits();
        assert_eq!(lines.try_iter().count(), 0);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(20) })]

        /// Forged notes lead only to lines with numbers in their ranges, and to no panic.
        #[test]
        fn forged_notes_are_left_out_or_plain(
            words in prop::collection::vec(
                (prop_oneof![Just(1u64), any::<u64>()], 0..6u64, prop_oneof![0..1u64 << 23, any::<u64>()], any::<u64>()),
                WAIT_NOTES,
            ),
        ) {
            let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
            let (without, with, lines) = two(&directory);
            let notes = &without.session.header().wait_notes;
            notes.count.store(u64::MAX - 3, Ordering::Release);
            for (note, (ino, what, thread, process)) in notes.places.iter().zip(&words) {
                note.ino.store(*ino, Ordering::Release);
                note.what.store(*what, Ordering::Release);
                note.thread.store(*thread, Ordering::Release);
                note.process.store(*process % (1 << 24), Ordering::Release);
                note.number.store(u64::MAX, Ordering::Release);
            }
            with.report_noted_waits();
            let is_good = |(ino, what, thread, process): &(u64, u64, u64, u64)| {
                without.inode(*ino).is_ok()
                    && (1..=3).contains(what)
                    && (1..=1 << 22).contains(thread)
                    && process % (1 << 24) <= 1 << 22
            };
            let good = words.iter().filter(|word| is_good(word)).count();
            prop_assert!(lines.try_iter().count() <= good);
            // And what is noted afterwards is still found.
            Waits::of(&without).report_long_wait(&WAIT);
            with.report_noted_waits();
            prop_assert!(lines.try_iter().any(|line| line.contains("thread 4712 of process 4711")));
        }
    }
}
