//! Copies of this process that run a closure.

use std::cell::Cell;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitStatus;

use rustix::io::Errno;
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

/// Status of a copy whose closure panicked.
pub const PANICKED: i32 = 101;

/// A child process, killed when dropped.
#[derive(Debug)]
pub struct Forked {
    process: Pid,
    /// How it ended, once it was waited for.
    ended: Cell<Option<ExitStatus>>,
}

impl Forked {
    /// Runs `body` in a copy of this process, which ends with the status that it returns and runs no other destructor
    /// or exit handler. The copy has this thread alone: what others have locked stays locked in it.
    ///
    /// # Errors
    /// `EAGAIN` and `ENOMEM` when the kernel makes no process.
    pub fn run(body: impl FnOnce() -> i32) -> io::Result<Forked> {
        // SAFETY: the copy goes on in this frame and never leaves it; glibc keeps its own locks usable.
        match unsafe { libc::fork() } {
            0 => {
                let status = catch_unwind(AssertUnwindSafe(body)).unwrap_or(PANICKED);
                // SAFETY: ends the copy, whose memory is used by nobody any more.
                unsafe { libc::_exit(status) }
            }
            child => {
                let process = Pid::from_raw(child).filter(|_| child > 0);
                let process = process.ok_or_else(io::Error::last_os_error)?;
                let ended = Cell::new(None);
                Ok(Forked { process, ended })
            }
        }
    }

    /// As [`Forked::run`], of a body that says whether all went well.
    ///
    /// # Errors
    /// As there.
    pub fn run_well(body: impl FnOnce() -> bool) -> io::Result<Forked> {
        Forked::run(|| i32::from(!body()))
    }

    /// Its process number.
    pub fn id(&self) -> i32 {
        self.process.as_raw_nonzero().get()
    }

    /// Sends it a signal, unless it was waited for.
    pub fn signal(&self, signal: Signal) {
        if self.ended.get().is_none() {
            // A process that is dead and not waited for keeps its number.
            let _ = kill_process(self.process, signal);
        }
    }

    /// Kills it; how it ended, which it may have done before.
    pub fn kill(&self) -> ExitStatus {
        self.signal(Signal::KILL);
        self.wait()
    }

    /// Waits until it ends.
    pub fn wait(&self) -> ExitStatus {
        match self.ended.get() {
            Some(status) => status,
            None => self.changed(WaitOptions::empty()),
        }
    }

    /// Waits until it stops, or ends.
    pub fn wait_for_stop(&self) -> ExitStatus {
        match self.ended.get() {
            Some(status) => status,
            None => self.changed(WaitOptions::UNTRACED),
        }
    }

    /// Leaves it to itself: it goes on when this is dropped.
    pub fn detach(self) -> i32 {
        self.ended.set(Some(ExitStatus::default()));
        self.id()
    }

    fn changed(&self, options: WaitOptions) -> ExitStatus {
        loop {
            match waitpid(Some(self.process), options) {
                Ok(Some((_, status))) => {
                    let status = ExitStatus::from_raw(status.as_raw());
                    if status.stopped_signal().is_none() {
                        self.ended.set(Some(status));
                    }
                    return status;
                }
                Ok(None) | Err(Errno::INTR) => {}
                Err(error) => panic!("cannot wait for child {}: {error}", self.id()),
            }
        }
    }
}

impl Drop for Forked {
    fn drop(&mut self) {
        if self.ended.get().is_none() {
            let _ = kill_process(self.process, Signal::KILL);
            let _ = waitpid(Some(self.process), WaitOptions::empty());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};

    #[test]
    fn a_copy_ends_with_what_its_closure_says() {
        assert_eq!(Forked::run(|| 7).unwrap().wait().code(), Some(7));
        assert!(Forked::run_well(|| true).unwrap().wait().success());
        let panicked = Forked::run(|| std::panic::resume_unwind(Box::new(()))).unwrap();
        assert_eq!(panicked.wait().code(), Some(PANICKED));
    }

    #[test]
    fn a_copy_stops_goes_on_and_is_killed() {
        let stopping = || loop {
            let _ = kill_process(rustix::process::getpid(), Signal::STOP);
        };
        let child = Forked::run(stopping).unwrap();
        for _ in 0..2 {
            assert_eq!(child.wait_for_stop().stopped_signal(), Some(libc::SIGSTOP));
            child.signal(Signal::CONT);
        }
        assert_eq!(child.kill().signal(), Some(libc::SIGKILL));
        assert_eq!(
            child.wait().signal(),
            Some(libc::SIGKILL),
            "the same answer again"
        );
    }

    #[test]
    fn a_copy_does_not_outlive_its_guard() {
        let (mut reader, mut writer) = std::io::pipe().unwrap();
        let child = Forked::run(|| {
            let _ = writer.write_all(b"here");
            loop {
                std::thread::park();
            }
        });
        let child = child.unwrap();
        drop(writer);
        reader.read_exact(&mut [0; 4]).unwrap();
        drop(child);
        // Only it held the other end.
        assert_eq!(reader.read(&mut [0]).unwrap(), 0);
    }
}
