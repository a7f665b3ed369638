//! Child processes: for each case one, and in cases for other users and for those who compete.

use crate::call;
use egeria_harness::fork::{Forked, PANICKED};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_setfl};
use rustix::io::Errno;
use rustix::process::{
    DumpableBehavior, Pid, PidfdFlags, Signal, pidfd_open, set_dumpable_behavior,
    set_parent_process_death_signal,
};
use rustix::thread::{CapabilitySet, CapabilitySets};
use std::mem::ManuallyDrop;
use std::os::fd::OwnedFd;
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A user without rights of its own, and its group.
pub const ALICE: u32 = 40_001;
pub const BOB: u32 = 40_002;
/// A group that neither is in by itself.
pub const TEAM: u32 = 40_100;

/// What begins the message of a case that cannot be run here.
const SKIPPED: &str = "skipped: ";

static LAST_PANIC: Mutex<String> = Mutex::new(String::new());

/// Keep the words of a panic instead of printing them.
pub fn keep_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let words = panic.payload_as_str().unwrap_or("panicked");
        if words == "a scoped thread panicked" {
            // It has said why.
            return;
        }
        let text = match panic.location() {
            Some(place) if !words.starts_with(SKIPPED) => {
                format!("{}:{}: {words}", place.file(), place.line())
            }
            _ => words.to_owned(),
        };
        *LAST_PANIC
            .lock()
            .unwrap_or_else(|poison| poison.into_inner()) = text;
    }));
}

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From now on SIGINT is noted, and ends the case under way only.
pub fn note_interruption() {
    extern "C" fn note(_: libc::c_int) {
        INTERRUPTED.store(true, Ordering::Relaxed);
    }
    call::handle(libc::SIGINT, note);
}

/// Whether a SIGINT came.
pub fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// End this case: it cannot be run here, and why.
pub fn skip(why: &str) -> ! {
    panic!("{SKIPPED}{why}")
}

/// How a child ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Everything held.
    Well,
    /// It could not be run, and why.
    Skipped(String),
    /// What did not hold.
    Badly(String),
}

/// A process that runs a closure.
pub struct Child {
    forked: ManuallyDrop<Forked>,
    /// Readable when it has ended.
    process: OwnedFd,
    words: OwnedFd,
}

/// How long a killed process may take to end; one that waits inside the kernel for what never comes does not.
const DYING: Duration = Duration::from_secs(2);
/// How long a part of a case may take before it counts as hanging. The longest takes 10 s where two others need the
/// same CPUs; what hangs never ends.
const HANGING: Duration = Duration::from_secs(90);

impl Child {
    /// Begin, in a copy of this process.
    pub fn begin(body: impl FnOnce()) -> Child {
        let (read, write) = call::pipe().expect("a pipe");
        // This program has one thread.
        let forked = Forked::run(|| {
            let _ = call::close(read.0);
            // A case must not outlive the program that watches it.
            let _ = set_parent_process_death_signal(Some(Signal::KILL));
            call::reset(libc::SIGINT);
            let outcome = catch_unwind(AssertUnwindSafe(body));
            if outcome.is_err() {
                let words = LAST_PANIC
                    .lock()
                    .unwrap_or_else(|poison| poison.into_inner());
                let _ = call::write(write.0, &words.as_bytes()[..words.len().min(4096)]);
            }
            if outcome.is_err() { PANICKED } else { 0 }
        });
        Child::watched(forked.expect("fork"), read.into_owned())
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.forked.id()
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        let mut wanted = [PollFd::new(&self.process, PollFlags::IN)];
        poll(&mut wanted, Some(&Timespec::default())).is_ok_and(|ready| ready > 0)
    }

    /// Kill it; [`Child::end`] then says so.
    pub fn kill(&self) {
        self.forked.signal(Signal::KILL);
    }

    fn watched(forked: Forked, words: OwnedFd) -> Child {
        let child = Pid::from_raw(forked.id()).expect("a child has a number");
        let process = pidfd_open(child, PidfdFlags::empty()).expect("pidfd_open");
        fcntl_setfl(&words, OFlags::NONBLOCK).expect("a flag of a pipe");
        Child {
            forked: ManuallyDrop::new(forked),
            process,
            words,
        }
    }

    /// Wait for its end: the words it left, and the status of `waitpid`. After the limit it is killed; if even that
    /// does not end it, it is left behind, and the status is that of a killed process.
    pub fn end(self, limit: Duration) -> (String, i32) {
        let mut words = Vec::new();
        if self.listen(limit, &mut words) {
            let words = String::from_utf8_lossy(&words).into_owned();
            return (words, self.status());
        }
        self.kill();
        let late = format!("did not end within {limit:?}");
        if self.listen(DYING, &mut words) {
            (late, self.status())
        } else {
            (
                format!("{late}, nor when it was killed: it waits inside the kernel"),
                libc::SIGKILL,
            )
        }
    }

    /// The status of a child that has ended.
    fn status(&self) -> i32 {
        self.forked.wait().into_raw()
    }

    /// Collect what it says until it ends; whether it ended within the limit. (Its own children may hold the pipe
    /// for longer.)
    fn listen(&self, limit: Duration, words: &mut Vec<u8>) -> bool {
        let end = Instant::now() + limit;
        // When nobody can say more, the end alone is waited for.
        let mut is_silent = false;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let left = Timespec::try_from(left).ok();
            let wanted = |fd| PollFd::new(fd, PollFlags::IN);
            let mut wanted = [wanted(&self.process), wanted(&self.words)];
            let count = if is_silent { 1 } else { 2 };
            match poll(&mut wanted[..count], left.as_ref()) {
                Ok(0) => return false,
                Ok(_) => {}
                // A signal: the limit counts on.
                Err(_) => continue,
            }
            let [has_ended, has_spoken] = wanted.map(|fd| !fd.revents().is_empty());
            if !is_silent && has_spoken {
                is_silent = self.hear(words);
            }
            if has_ended {
                return true;
            }
        }
    }

    /// Take what has been said; whether that was all.
    fn hear(&self, words: &mut Vec<u8>) -> bool {
        let mut buffer = [0; 4096];
        loop {
            match rustix::io::read(&self.words, &mut buffer) {
                Ok(bytes @ 1..) => words.extend_from_slice(&buffer[..bytes]),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => return false,
                Ok(0) | Err(_) => return true,
            }
        }
    }

    /// Wait, and say how it ended.
    pub fn ending(self, limit: Duration) -> Ending {
        match self.end(limit) {
            (_, 0) => Ending::Well,
            (words, status) if libc::WIFSIGNALED(status) => Ending::Badly(format!(
                "{words} (ended by {})",
                signal_name(libc::WTERMSIG(status))
            )),
            (words, _) => match words.strip_prefix(SKIPPED) {
                Some(why) => Ending::Skipped(why.to_owned()),
                None => Ending::Badly(words),
            },
        }
    }

    /// Wait; what did not hold there does not hold here.
    #[track_caller]
    pub fn join(self) {
        match self.ending(HANGING) {
            Ending::Well => {}
            Ending::Skipped(why) => skip(&why),
            Ending::Badly(words) => panic!("in a child process: {words}"),
        }
    }
}

pub(crate) fn signal_name(number: i32) -> String {
    match number {
        libc::SIGBUS => "SIGBUS".into(),
        libc::SIGSEGV => "SIGSEGV".into(),
        libc::SIGKILL => "SIGKILL".into(),
        other => format!("signal {other}"),
    }
}

/// Run in a child process what could hang or die: that is said in words, with what it was about.
#[track_caller]
pub fn in_time(what: &str, body: impl FnOnce()) {
    match Child::begin(body).ending(HANGING) {
        Ending::Well => {}
        Ending::Skipped(why) => skip(&why),
        Ending::Badly(words) => panic!("{what}: {words}"),
    }
}

/// The signal that ends a child which does this.
pub fn signal_of(operation: impl FnOnce()) -> Option<i32> {
    let (_, status) = Child::begin(operation).end(Duration::from_secs(20));
    libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status))
}

/// Run in a child process.
#[track_caller]
pub fn apart(body: impl FnOnce()) {
    Child::begin(body).join();
}

/// Run as a user with a group and further groups.
#[track_caller]
pub fn as_user(user: u32, group: u32, further: &[u32], body: impl FnOnce()) {
    needs_root();
    apart(|| {
        become_user(user, group, further);
        body();
    });
}

/// Run as this user without a capability.
#[track_caller]
pub fn without_capability(capability: CapabilitySet, body: impl FnOnce()) {
    needs_root();
    apart(|| {
        let sets = rustix::thread::capabilities(None).expect("capabilities");
        let rest = !capability;
        let reduced = CapabilitySets {
            effective: sets.effective & rest,
            permitted: sets.permitted & rest,
            inheritable: sets.inheritable & rest,
        };
        rustix::thread::set_capabilities(None, reduced).expect("fewer capabilities");
        body();
    });
}

/// Give up all rights but those of a user, for good.
pub fn become_user(user: u32, group: u32, further: &[u32]) {
    call::setgroups(further).expect("setgroups");
    call::setresgid(group, group, group).expect("setresgid");
    call::setresuid(user, user, user).expect("setresuid");
    // A change of user makes a process unreadable in /proc.
    let _ = set_dumpable_behavior(DumpableBehavior::Dumpable);
    let _ = set_parent_process_death_signal(Some(Signal::KILL));
}

/// Whether this kernel is that new.
pub fn is_kernel_since(major: u32, minor: u32) -> bool {
    let release = rustix::system::uname();
    let release = release.release().to_string_lossy();
    let mut numbers = release.split(['.', '-']).map(|part| part.parse().ok());
    let version = (numbers.next().flatten(), numbers.next().flatten());
    version >= (Some(major), Some(minor))
}

/// Skip unless this is root.
pub fn needs_root() {
    if !rustix::process::geteuid().is_root() {
        skip("needs root");
    }
}
