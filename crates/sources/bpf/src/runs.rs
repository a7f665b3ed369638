//! How often the program ran.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

use crate::calls;

/// A number for each CPU, to which the program adds one.
pub(crate) struct Runs {
    numbers: OwnedFd,
    cpus: usize,
}

impl Runs {
    pub(crate) fn new() -> io::Result<Runs> {
        let possible = std::fs::read_to_string("/sys/devices/system/cpu/possible")?;
        let cpus = cpus(&possible).ok_or_else(|| io::Error::other("which CPUs there may be"))?;
        Ok(Runs {
            numbers: calls::create_numbers()?,
            cpus,
        })
    }

    /// Since it was made; `None` when the kernel does not say.
    pub(crate) fn so_far(&self) -> Option<u64> {
        // SAFETY: as many as the kernel itself says there can ever be.
        unsafe { calls::sum(self.numbers.as_fd(), self.cpus) }.ok()
    }
}

impl AsRawFd for Runs {
    fn as_raw_fd(&self) -> RawFd {
        self.numbers.as_raw_fd()
    }
}

/// One more than the last of a list as `0-3,8-11`.
fn cpus(possible: &str) -> Option<usize> {
    let last = possible.trim().rsplit([',', '-']).next()?;
    last.parse::<usize>().ok()?.checked_add(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_the_last_cpu() {
        let found = ["0\n", "0-3\n", "0,2-5,9\n", "0-3,8-11"].map(cpus);
        assert_eq!(found, [Some(1), Some(4), Some(10), Some(12)]);
        assert_eq!((cpus(""), cpus("all\n")), (None, None));
    }
}
