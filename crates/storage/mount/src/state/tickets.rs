//! Tickets: the right to open an inode by its number, once, by a random name that the mount generates.
//!
//! A predictable name would be dangerous: a copied or unpacked file of that name would overwrite the inode. So a name
//! is unknown before it is requested, and none is kept on media.

use egeria_engine::control::TICKET_DIGITS;
use egeria_engine::{Errno, InodeNumber, Outcome};
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

const RANDOM_BYTES: usize = TICKET_DIGITS / 2;

struct Ticket {
    digits: [u8; TICKET_DIGITS],
    of: (InodeNumber, u32),
}

/// Tickets that were not used yet, one for each open directory at most.
#[derive(Default)]
pub(crate) struct Tickets {
    by_handle: Mutex<HashMap<u64, Ticket>>,
}

impl Tickets {
    fn all(&self) -> MutexGuard<'_, HashMap<u64, Ticket>> {
        self.by_handle
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }

    /// A new name for an inode; it replaces an earlier one from the same open directory.
    pub(crate) fn issue(
        &self,
        handle: u64,
        of: (InodeNumber, u32),
    ) -> Outcome<[u8; TICKET_DIGITS]> {
        let digits = random_digits()?;
        self.all().insert(handle, Ticket { digits, of });
        Ok(digits)
    }

    /// The inode of a name, which becomes invalid.
    pub(crate) fn take(&self, name: &[u8]) -> Option<(InodeNumber, u32)> {
        if name.len() != TICKET_DIGITS {
            return None;
        }
        let mut all = self.all();
        let (handle, _) = all.iter().find(|(_, ticket)| ticket.digits == name)?;
        let handle = *handle;
        all.remove(&handle).map(|ticket| ticket.of)
    }

    /// The directory was closed.
    pub(crate) fn forget(&self, handle: u64) {
        self.all().remove(&handle);
    }
}

fn random_digits() -> Outcome<[u8; TICKET_DIGITS]> {
    let mut random = [0; RANDOM_BYTES];
    let filled = rustix::rand::getrandom(&mut random, rustix::rand::GetRandomFlags::empty());
    if filled != Ok(RANDOM_BYTES) {
        return Err(Errno(libc::EIO));
    }
    let mut digits = [0; TICKET_DIGITS];
    for (index, digit) in digits.iter_mut().enumerate() {
        let half = random[index / 2] >> (4 * (index % 2)) & 0xf;
        *digit = b"0123456789abcdef"[usize::from(half)];
    }
    Ok(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ticket_is_good_once() {
        let tickets = Tickets::default();
        let of = (InodeNumber(7), 3);
        let name = tickets.issue(1, of).unwrap();
        assert_eq!(tickets.take(&name), Some(of));
        assert_eq!(tickets.take(&name), None);
    }

    #[test]
    fn a_ticket_ends_with_its_directory_and_its_successor() {
        let tickets = Tickets::default();
        let first = tickets.issue(1, (InodeNumber(7), 3)).unwrap();
        let second = tickets.issue(1, (InodeNumber(8), 1)).unwrap();
        assert_ne!(first, second);
        assert_eq!(tickets.take(&first), None);
        tickets.forget(1);
        assert_eq!(tickets.take(&second), None);
    }
}
