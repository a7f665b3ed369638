//! Killing a child in the middle: after so many instructions (it sets the processor's trap flag on itself
//! and counts the traps, which is exact and slow), or by a timer (which is neither).

use egeria_engine::{Volume, format};
use egeria_harness::fork::Forked;
use egeria_harness::memory::Mapping;
use rustix::process::{Signal, getpid, kill_process};
use std::arch::asm;
use std::io::{PipeWriter, Read, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::sync::RwLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// When a child dies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Death {
    /// After this many instructions.
    Instructions(u64),
    /// This many instructions after its journal was sealed (see [`watch_journals`]).
    Sealed(u64),
    /// After this time.
    Nanoseconds(u64),
}

/// How far a child came.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// Killed with its work under way.
    Killed,
    /// It ended by itself after this many instructions or nanoseconds.
    Finished(u64),
}

/// Instructions until the end, in the child.
static LEFT: AtomicU64 = AtomicU64::new(0);

/// Pool 0, for who dies by its journals.
static JOURNALS: RwLock<Option<Mapping>> = RwLock::new(None);
/// The count begins with the seal of a journal.
static WAITS_FOR_SEAL: AtomicBool = AtomicBool::new(false);
/// Journals looked at: those of the first threads.
const WATCHED: u64 = 8;

/// Map the journals of a volume, for children that die by them.
pub fn watch_journals(pool: &Path) {
    let end = format::journal_slot(WATCHED).0 as usize;
    let file = std::fs::File::open(pool).expect("pool");
    let mapping = Mapping::of_file(&file, end, false).expect("a mapping");
    *JOURNALS.write().expect("a lock") = Some(mapping);
}

/// Whether a journal holds what counts and may not be done yet.
pub fn is_any_sealed() -> bool {
    // The handler of a signal must not wait; nobody writes while a child runs.
    let journals = JOURNALS.try_read().expect("a lock");
    let journals = journals.as_ref().expect("`watch_journals` came first");
    (0..WATCHED).any(|slot| journals.load_word(format::journal_slot(slot).0 as usize) != 0)
}

extern "C" fn count_down(_signal: i32) {
    if WAITS_FOR_SEAL.load(Ordering::Relaxed) && !is_any_sealed() {
        return;
    }
    WAITS_FOR_SEAL.store(false, Ordering::Relaxed);
    if LEFT.fetch_sub(1, Ordering::Relaxed) == 0 {
        let _ = kill_process(getpid(), Signal::KILL);
    }
}

fn trap_every_instruction(on: bool) {
    // SAFETY: changes the trap flag and nothing else; the handler is in place while it is set.
    unsafe {
        if on {
            asm!("pushfq", "or qword ptr [rsp], 0x100", "popfq");
        } else {
            asm!("pushfq", "and qword ptr [rsp], -257", "popfq");
        }
    }
}

/// Run a part of what a child does without counting its instructions.
pub fn uncounted<T>(body: impl FnOnce() -> T) -> T {
    trap_every_instruction(false);
    let done = body();
    trap_every_instruction(true);
    done
}

/// Run `act` in a forked child that dies so. The caller has one thread only.
pub fn kill_after(volume: &Volume, death: Death, act: &dyn Fn(&Volume)) -> End {
    let (mut reader, writer) = std::io::pipe().expect("a pipe");
    let child = Forked::run(|| run_child(volume, death, act, &writer)).expect("fork");
    drop(writer);
    let mut taken = [0u8; 8];
    let told = reader.read(&mut taken).expect("a pipe");
    let status = child.wait();
    if status.signal() == Some(libc::SIGKILL) {
        return End::Killed;
    }
    assert!(status.success() && told == 8, "the child failed: {status}");
    End::Finished(u64::from_ne_bytes(taken))
}

fn run_child(volume: &Volume, death: Death, act: &dyn Fn(&Volume), mut tell: &PipeWriter) -> i32 {
    volume.after_fork_in_child();
    // Slots are taken before the count begins.
    let ready = volume.attributes(egeria_engine::InodeNumber::ROOT).is_ok();
    let act = || match death {
        Death::Instructions(instructions) => step(instructions, &|| act(volume)),
        Death::Sealed(instructions) => {
            WAITS_FOR_SEAL.store(true, Ordering::Relaxed);
            step(instructions, &|| act(volume))
        }
        Death::Nanoseconds(delay_ns) => race(delay_ns, &|| act(volume)),
    };
    let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
    trap_every_instruction(false);
    let taken = done.as_ref().map_or(0, |taken| *taken).to_ne_bytes();
    let told = tell.write_all(&taken);
    if ready && done.is_ok() && told.is_ok() {
        0
    } else {
        3
    }
}

/// Run and die after so many instructions, else tell how many it took.
fn step(instructions: u64, act: &dyn Fn()) -> u64 {
    LEFT.store(instructions, Ordering::Relaxed);
    // SAFETY: a zeroed action is valid; the handler does nothing that a signal may not.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = count_down as *const () as usize;
        assert_eq!(
            libc::sigaction(libc::SIGTRAP, &action, std::ptr::null_mut()),
            0
        );
    }
    trap_every_instruction(true);
    act();
    trap_every_instruction(false);
    instructions - LEFT.load(Ordering::Relaxed)
}

/// Run and die after so long, else tell how long it took.
fn race(delay_ns: u64, act: &dyn Fn()) -> u64 {
    // SAFETY: zeroed structures are valid, the out-parameter is; the timer ends with the process.
    unsafe {
        let mut event: libc::sigevent = std::mem::zeroed();
        event.sigev_notify = libc::SIGEV_SIGNAL;
        event.sigev_signo = libc::SIGKILL;
        let mut timer: libc::timer_t = std::mem::zeroed();
        assert_eq!(
            libc::timer_create(libc::CLOCK_MONOTONIC, &mut event, &mut timer),
            0
        );
        let mut at: libc::itimerspec = std::mem::zeroed();
        at.it_value.tv_sec = (delay_ns / 1_000_000_000) as i64;
        at.it_value.tv_nsec = (delay_ns % 1_000_000_000).max(1) as i64;
        assert_eq!(libc::timer_settime(timer, 0, &at, std::ptr::null_mut()), 0);
    }
    let started = std::time::Instant::now();
    act();
    started.elapsed().as_nanos() as u64
}
