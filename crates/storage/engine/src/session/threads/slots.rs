//! Slots that identify processes and threads in the session. A thread slot is written by its thread alone. When its
//! process dies, the reaper (`recovery::reap`) finds there all that was in flight.

use crate::session::late::Late;
use crate::session::layout::*;
use crate::session::map::Session;
use crate::session::owner_word::{Era, OwnerWord};
use crate::session::segments::mappings_here;
use crate::session::slot_ownership::SlotOwnership;
use crate::session::volume::{Origin, Volume};
use crate::session::{LateWork, Slots, current};
use crate::sync::atomic::AtomicU32;
use crate::types::{Errno, Outcome};
use rustix::process::{Pid, test_kill_process};
use std::cell::RefCell;
use std::sync::Weak;
use std::sync::atomic::{AtomicU64, Ordering};

/// The calling thread's slot.
#[derive(Clone, Copy)]
pub(crate) struct Me<'a> {
    pub(crate) slot: &'a ThreadSlot,
    pub(crate) index: usize,
}

impl Me<'_> {
    /// An inode is about to lose its last name or open. Should this thread die, the process that reaps it deletes the
    /// inode if it is unused then. Until `inode_settled`.
    pub(crate) fn inode_losing(self, ino: u64) {
        self.slot
            .pending_inode
            .store(ino | LOSING_USE, Ordering::Release);
    }

    /// The number is committed, or the inode is deleted or in use: this thread no longer has to settle it.
    pub(crate) fn inode_settled(self) {
        self.slot.pending_inode.store(0, Ordering::Release);
    }

    /// The owner word of an inode while this thread holds its lock.
    #[inline(always)]
    pub(crate) fn owner_word(self) -> OwnerWord {
        OwnerWord::new(self.index, self.slot.incarnation.load(Ordering::Relaxed))
    }
}

struct Held {
    volume: Weak<Volume>,
    era: u64,
    index: usize,
}

/// Slots this thread holds, given back when it ends.
struct HeldSlots(RefCell<Vec<Held>>);

impl Drop for HeldSlots {
    fn drop(&mut self) {
        for held in self.0.borrow_mut().drain(..) {
            if let Some(volume) = held.volume.upgrade()
                && volume.era.load(Ordering::Relaxed) == held.era
            {
                Slots::of(&volume).release_thread_slot(held.index);
            }
        }
        current::forget();
    }
}

thread_local! {
    static HELD: HeldSlots = const { HeldSlots(RefCell::new(Vec::new())) };
}

static ATTACHMENTS: AtomicU64 = AtomicU64::new(1);

/// The era a new attachment begins with.
pub(crate) fn new_era() -> Era {
    Era::of_attachment(ATTACHMENTS.fetch_add(1, Ordering::Relaxed))
}

/// What is known about a process.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Life {
    /// Start time, clock ticks since boot.
    Running(u64),
    /// It is gone, or none of its threads runs any more.
    Over,
    /// Not visible in /proc (no descriptor left, or another /proc is mounted): does not mean that it is dead.
    Unknown,
}

/// Whether a process lives, and since when.
pub(crate) fn process_life(pid: u64) -> Life {
    let asked = Pid::from_raw(pid as i32).map(test_kill_process);
    if asked == Some(Err(rustix::io::Errno::SRCH)) {
        return Life::Over;
    }
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .ok()
        .and_then(|text| life_of_stat(&text))
        .unwrap_or(Life::Unknown)
}

/// Parse a line of /proc/PID/stat. A first thread that ended is a zombie while others still run.
fn life_of_stat(text: &str) -> Option<Life> {
    let (_, fields) = text.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_ascii_whitespace().collect();
    let number = |at: usize| fields.get(at)?.parse::<u64>().ok();
    match *fields.first()? {
        "X" => Some(Life::Over),
        "Z" if number(17)? <= 1 => Some(Life::Over),
        _ => Some(Life::Running(number(19)?)),
    }
}

impl ProcessSlot {
    /// Whether the slot's process is gone. A process hidden by another pid namespace counts as alive.
    pub(crate) fn is_dead(&self) -> bool {
        let pid = self.pid.load(Ordering::Acquire);
        if pid == 0 || self.pid_namespace.load(Ordering::Relaxed) != pid_namespace() {
            return false;
        }
        let known = self.start_ticks.load(Ordering::Relaxed);
        match process_life(pid) {
            Life::Running(start_ticks) => known != 0 && start_ticks != known,
            Life::Over => true,
            Life::Unknown => false,
        }
    }
}

/// Inode of this process's pid namespace; 0 when /proc does not show it.
pub(crate) fn pid_namespace() -> u64 {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self/ns/pid")
        .map(|metadata| metadata.ino())
        .unwrap_or(0)
}

/// A start time that no process has: what held the slot is gone, whatever its pid says.
const BEFORE_EXEC: u64 = u64::MAX;

impl Session {
    /// Leave to the reaper what this process took before it became another program by `exec`: pid and start time do
    /// not change, so it looks alive. Called before this attachment has a slot, which `process` would name.
    ///
    /// A user of this process that holds a slot keeps the segment mapped: another attachment, another copy of this
    /// library, or a process that shares our memory (`vfork`). So if the only mapping is ours, the other slots of this
    /// process belong to a program replaced by `exec`, and all its threads are gone.
    fn disown_slots_before_exec(&self, process: &AtomicU32, pid: u64, start_ticks: u64) {
        let namespace = pid_namespace();
        if start_ticks == 0 || namespace == 0 {
            return;
        }
        let ours = |slot: &ProcessSlot| {
            slot.pid.load(Ordering::Acquire) == pid
                && slot.start_ticks.load(Ordering::Relaxed) == start_ticks
                && slot.pid_namespace.load(Ordering::Relaxed) == namespace
        };
        for slot in self.used_processes() {
            // A slot that is being taken belongs to a live attachment.
            if ours(slot)
                && let Ok(acquired) = slot.taking.try_lock()
            {
                // Excludes other takers of the slot, also other threads of this attachment.
                slot.taking.run_locked(
                    acquired,
                    || (),
                    || {
                        let before_exec = process.load(Ordering::Acquire) == 0
                            && ours(slot)
                            && mappings_here(self.path()) == Some(1);
                        if before_exec {
                            slot.start_ticks.store(BEFORE_EXEC, Ordering::Release);
                        }
                    },
                );
            }
        }
    }
}

impl<'v> Slots<'v> {
    #[cold]
    pub(in crate::session) fn find_me(self) -> Outcome<Me<'v>> {
        let era = self.volume.era.load(Ordering::Relaxed);
        let known = HELD
            .try_with(|held| {
                let mut held = held.0.borrow_mut();
                held.retain(|held| !Era(held.era).is_same_attachment(Era(era)) || held.era == era);
                held.iter()
                    .find(|held| held.era == era)
                    .map(|held| held.index)
            })
            .map_err(|_| Errno(libc::EAGAIN))?;
        let index = match known {
            Some(index) => index,
            None => {
                let index = self.take_thread_slot()?;
                let volume = self.volume.weak.clone();
                let _ = HELD.try_with(|held| {
                    held.0.borrow_mut().push(Held { volume, era, index });
                });
                index
            }
        };
        let slot = &self.volume.session.threads()[index];
        current::set(era, slot, index);
        Ok(Me { slot, index })
    }

    fn take_thread_slot(self) -> Outcome<usize> {
        let process = self.volume.process_slot()?;
        let threads = self.volume.session.threads();
        let thread_id = rustix::thread::gettid().as_raw_nonzero().get() as usize;
        // Threads start searching at different places, so that they rarely collide. While there are few threads, low
        // slots come first, which keeps scans over all slots short.
        let high = self
            .volume
            .session
            .header()
            .thread_high
            .load(Ordering::Relaxed) as usize;
        let start = if high == 0 { 0 } else { thread_id % high };
        for index in (start..THREAD_SLOTS).chain(0..start) {
            self.volume.session.back(&threads[index])?;
            if threads[index].ownership().take(process, thread_id as u64) {
                self.volume
                    .session
                    .header()
                    .thread_high
                    .fetch_max(index as u64 + 1, Ordering::Relaxed);
                return Ok(index);
            }
        }
        Err(Errno(libc::EAGAIN))
    }

    /// Give a thread slot back: its pockets to the free-space maps, its counts to the sum.
    pub(crate) fn release_thread_slot(self, index: usize) {
        let slot = &self.volume.session.threads()[index];
        if self.volume.empty_pockets(slot).is_err() {
            for word in slot.pocket.iter().flatten() {
                match word.swap(0, Ordering::AcqRel) {
                    0 => {}
                    run => LateWork::of(self.volume).later(Late::Run(run)),
                }
            }
        }
        self.volume.session.retire_thread_slot(slot);
    }

    pub(in crate::session) fn take_process_slot(self) -> Outcome<usize> {
        let pid = std::process::id() as u64;
        // No other process sees a private session, so the start time is never needed.
        let private = self.volume.origin == Origin::Private;
        let start_ticks = if private {
            0
        } else {
            match process_life(pid) {
                Life::Running(start_ticks) => start_ticks,
                _ => 0,
            }
        };
        if !private {
            self.volume
                .session
                .disown_slots_before_exec(&self.volume.process, pid, start_ticks);
        }
        let namespace = if private { 0 } else { pid_namespace() };
        for (index, slot) in self.volume.session.processes().iter().enumerate() {
            if slot.pid.load(Ordering::Relaxed) == 0
                && let Ok(acquired) = slot.taking.try_lock()
            {
                let take = || {
                    let free = slot.pid.load(Ordering::Acquire) == 0;
                    free.then(|| self.fill_process_slot(index, [pid, start_ticks, namespace]))
                };
                if let Some(ours) = slot.taking.run_locked(acquired, || (), take) {
                    return Ok(ours);
                }
            }
        }
        Err(Errno(libc::EAGAIN))
    }

    /// Take a free slot, unless another thread has taken one for this attachment; returns the slot of this attachment.
    /// A slot is free until its pid is stored, last; so a process that dies during this leaves it free.
    fn fill_process_slot(self, index: usize, [pid, start_ticks, namespace]: [u64; 3]) -> usize {
        let slot = &self.volume.session.processes()[index];
        slot.start_ticks.store(start_ticks, Ordering::Relaxed);
        slot.pid_namespace.store(namespace, Ordering::Relaxed);
        slot.open_table.store(0, Ordering::Relaxed);
        let on_behalf = self.volume.on_behalf.load(Ordering::Relaxed);
        slot.on_behalf.store(on_behalf.into(), Ordering::Relaxed);
        let high = &self.volume.session.header().process_high;
        high.fetch_max(index as u64 + 1, Ordering::Relaxed);
        slot.pid.store(pid, Ordering::Release);
        let (order, failed) = (Ordering::AcqRel, Ordering::Acquire);
        match (self.volume.process).compare_exchange(0, index as u32 + 1, order, failed) {
            Ok(_) => index,
            Err(other) => {
                slot.pid.store(0, Ordering::Release);
                other as usize - 1
            }
        }
    }

    /// Give back the slots of this thread.
    pub(in crate::session) fn release_all(self) {
        let _ = HELD.try_with(|held| {
            let mut held = held.0.borrow_mut();
            let era = self.volume.era.load(Ordering::Relaxed);
            if let Some(at) = held
                .iter()
                .position(|held| Era(held.era).is_same_attachment(Era(era)))
            {
                let gone = held.swap_remove(at);
                if gone.era == era {
                    self.release_thread_slot(gone.index);
                }
            }
        });
        current::forget();
    }
}

impl Session {
    /// Last step of giving a slot back, also that of a dead thread.
    pub(crate) fn retire_thread_slot(&self, slot: &ThreadSlot) {
        self.emulation().release_thread(&slot.emulated);
        self.retire_from_gates(slot);
        let ended = &self.header().ended;
        for (sum, counter) in ended.all().zip(slot.counters.all()) {
            sum.fetch_add(counter.swap(0, Ordering::Relaxed), Ordering::Relaxed);
        }
        slot.notes.clear();
        slot.in_place.store(0, Ordering::Relaxed);
        slot.awaited_pools.store(0, Ordering::Relaxed);
        // A mount may have been killed within a request.
        slot.writer_pool.store(0, Ordering::Relaxed);
        slot.accessed_pools.store(0, Ordering::Relaxed);
        slot.ownership().give_back();
    }
}

impl ThreadSlot {
    pub(crate) fn ownership(&self) -> SlotOwnership<'_> {
        SlotOwnership {
            owner: &self.owner,
            thread_id: &self.thread_id,
            incarnation: &self.incarnation,
        }
    }
}

impl ThreadCounters {
    /// All counters, in one fixed order.
    pub(crate) fn all(&self) -> impl Iterator<Item = &AtomicU64> {
        self.read_bytes
            .iter()
            .chain(&self.written_bytes)
            .chain(&self.remote_bytes)
            .chain([
                &self.direct_calls,
                &self.passed_calls,
                &self.mount_requests,
                &self.checksum_failures,
                &self.waits,
                &self.waited_ns,
                &self.delegated_bytes,
            ])
            .chain(&self.asked)
            .chain(&self.asked_writes)
            .chain(&self.asked_bytes)
    }
}

/// Add to a counter that this thread alone writes: no locked instruction.
#[inline]
pub(crate) fn count(counter: &AtomicU64, by: u64) {
    counter.store(
        counter.load(Ordering::Relaxed).wrapping_add(by),
        Ordering::Relaxed,
    );
}
