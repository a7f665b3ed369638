//! Which users this process trusts.

use std::io;

const ROOT: u32 = 0;
/// Stands for every user without a number in this user namespace, also for the root outside of it.
pub(super) const UNMAPPED: u32 = 65_534;

/// The user this process acts as.
pub fn user() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// Whether the owner is a user that can do anything to this user in any case.
pub(super) fn is_trusted(owner: u32) -> bool {
    owner == user() || owner == ROOT || (owner == UNMAPPED && !is_mapped(UNMAPPED))
}

/// Whether a user has a number of his own in this user namespace.
pub(super) fn is_mapped(user: u32) -> bool {
    let Ok(map) = std::fs::read_to_string("/proc/self/uid_map") else {
        return true;
    };
    let holds = |line: &str| {
        let mut numbers = line.split_ascii_whitespace().map(str::parse::<u64>);
        let (Some(Ok(first)), Some(Ok(_)), Some(Ok(count))) =
            (numbers.next(), numbers.next(), numbers.next())
        else {
            return true;
        };
        (first..first.saturating_add(count)).contains(&u64::from(user))
    };
    map.lines().any(holds)
}

pub(super) fn refused(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, what)
}
