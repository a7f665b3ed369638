//! Signals that ask to stop. Commands that make mounts or scratch files install [`Signals`]. A stop is then an error
//! that runs every clean-up, and not the end of the process.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustix::process::{Pid, Signal, getpgid, getpgrp, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};
use signal_hook::iterator::SignalsInfo;
use signal_hook::iterator::exfiltrator::raw::WithRawSiginfo;

use crate::failure::{Failure, Outcome};

/// Signals that end a program by default.
const STOPPING: [i32; 6] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2];

/// How the next signal is handled.
enum Duty {
    /// Remember the first, for [`Signals::check`].
    Note,
    /// The command of `egeria run` is alive: it handles the signal.
    Forward(Pid),
    /// Call this with the signal's number.
    Call(Box<dyn FnMut(i32) + Send>),
}

struct State {
    /// The first signal that was noted; 0: none.
    first: AtomicI32,
    /// Whether `first` is set, as a flag that other code can poll.
    stop: AtomicBool,
    duty: Mutex<Duty>,
    /// How long a command may take to end once a signal asked it to; 0: as long as it needs.
    end_within_ms: AtomicU64,
}

/// The installed handlers; they stay for the life of the process.
#[derive(Clone)]
pub struct Signals {
    state: Arc<State>,
}

impl Signals {
    /// Takes over the stopping signals, except those the caller of this program had ignored.
    ///
    /// # Errors
    /// When the kernel refuses handlers.
    pub fn install() -> Outcome<Signals> {
        let wanted = STOPPING.into_iter().filter(|&signal| !is_ignored(signal));
        let failed = |error| {
            Failure::new(format!(
                "cannot handle signals: {error}; raise the limits on files and threads (ulimit -n, -u)"
            ))
        };
        let mut signals = SignalsInfo::<WithRawSiginfo>::new(wanted).map_err(failed)?;
        let state = Arc::new(State {
            first: AtomicI32::new(0),
            stop: AtomicBool::new(false),
            duty: Mutex::new(Duty::Note),
            end_within_ms: AtomicU64::new(0),
        });
        let shared = state.clone();
        std::thread::Builder::new()
            .name("signals".to_owned())
            .spawn(move || {
                for info in signals.forever() {
                    shared.arrived(info.si_signo, info.si_code);
                }
            })
            .map_err(failed)?;
        // Otherwise the kernel could choose a thread that waits for a file system and only ends by death. It would
        // never run a handler.
        leave_to_others(&STOPPING);
        Ok(Signals { state })
    }

    /// For commands that leave nothing to clean up: a signal ends the process after this time at the latest. Its
    /// threads may be in calls of a file system that never answers.
    pub fn end_within(&self, limit: Duration) {
        let limit_ms = u64::try_from(limit.as_millis()).unwrap_or(u64::MAX);
        self.state.end_within_ms.store(limit_ms, Ordering::Release);
    }

    /// An error once a signal asked to stop.
    ///
    /// # Errors
    /// [`Failure::Interrupted`] with the first signal.
    pub fn check(&self) -> Outcome {
        match self.state.first.load(Ordering::Acquire) {
            0 => Ok(()),
            signal => Err(Failure::Interrupted(signal)),
        }
    }

    /// Why work ended: the signal that came, else its own error.
    pub fn or_failure(&self, error: impl Into<Failure>) -> Failure {
        match self.check() {
            Err(interrupted) => interrupted,
            Ok(()) => error.into(),
        }
    }

    /// Waits for a signal that asks to stop.
    pub fn wait(&self) {
        let never: Option<()> = self.wait_or(|| None);
        debug_assert!(never.is_none());
    }

    /// Waits for a signal that asks to stop, or until `ended` returns a value. `ended` is called only twice a second,
    /// because it may take much longer than a check for signals.
    pub fn wait_or<T>(&self, mut ended: impl FnMut() -> Option<T>) -> Option<T> {
        const LOOK: Duration = Duration::from_millis(50);
        const LOOKS: u32 = 10;
        for look in (0..LOOKS).cycle() {
            if self.state.stop.load(Ordering::Acquire) {
                break;
            }
            let found = if look == 0 { ended() } else { None };
            if found.is_some() {
                return found;
            }
            std::thread::sleep(LOOK);
        }
        None
    }

    /// Set once a signal asked to stop, for work that checks it from time to time.
    pub fn stop_flag(&self) -> &AtomicBool {
        &self.state.stop
    }

    /// From now on signals go to this child, until [`Signals::forget`]. One that came before is an error.
    ///
    /// # Errors
    /// [`Failure::Interrupted`] when a signal has come already.
    pub fn forward_to(&self, child: Pid) -> Outcome {
        let mut duty = self.state.lock();
        self.check()?;
        *duty = Duty::Forward(child);
        Ok(())
    }

    /// From now on signals call this, and are remembered.
    pub fn call(&self, action: impl FnMut(i32) + Send + 'static) {
        *self.state.lock() = Duty::Call(Box::new(action));
    }

    /// From now on signals are only remembered.
    pub fn forget(&self) {
        *self.state.lock() = Duty::Note;
    }
}

impl State {
    fn lock(&self) -> std::sync::MutexGuard<'_, Duty> {
        self.duty.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn arrived(&self, signal: i32, code: i32) {
        match &mut *self.lock() {
            Duty::Note => {
                self.note(signal);
                self.end_soon(signal);
            }
            Duty::Forward(child) => forward(signal, code, *child),
            Duty::Call(action) => {
                self.note(signal);
                action(signal);
            }
        }
    }

    /// Waits on the thread that receives signals, because it has nothing else to do.
    fn end_soon(&self, signal: i32) {
        let limit_ms = self.end_within_ms.load(Ordering::Acquire);
        if limit_ms == 0 {
            return;
        }
        std::thread::sleep(Duration::from_millis(limit_ms));
        // SAFETY: it takes a number and does not return; other threads end where they are, and what they hold ends
        // with them.
        unsafe { libc::_exit(128 + signal) }
    }

    fn note(&self, signal: i32) {
        let _ = self
            .first
            .compare_exchange(0, signal, Ordering::AcqRel, Ordering::Acquire);
        self.stop.store(true, Ordering::Release);
    }
}

/// Passes a signal on, unless the terminal gave it to the child as well.
fn forward(signal: i32, code: i32, child: Pid) {
    let same_group = getpgid(Some(child)).is_ok_and(|group| group == getpgrp());
    if code == libc::SI_KERNEL && same_group {
        return;
    }
    if let Some(signal) = Signal::from_named_raw(signal) {
        let _ = kill_process(child, signal);
    }
}

/// This thread, and those it starts from now on, take none of these signals.
fn leave_to_others(signals: &[i32]) {
    // SAFETY: an all-zero set is a set, which sigemptyset and sigaddset change and pthread_sigmask reads.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut set);
        for signal in signals {
            libc::sigaddset(&mut set, *signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &set, std::ptr::null_mut());
    }
}

/// Whether the parent process wants this signal ignored (`nohup`, background jobs).
fn is_ignored(signal: i32) -> bool {
    // SAFETY: an all-zero sigaction is valid, and sigaction only fills it in.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    }
}
