//! A process that reads snapshots while others change everything and die. What a snapshot shows must fit together, and stay the same.

use super::ledger::Ledger;
use super::plan::{ROOMS, TOKENS};
use crate::crash::Snapshot;
use egeria_engine::{Errno, FileKind, InodeNumber, Volume};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How long to wait when another process reads a snapshot: the one that this process replaces.
const WAIT_FOR_OTHER: Duration = Duration::from_millis(1);

/// Read snapshots until all are to end. As long as each took, there is none: then other ways through the engine are taken.
pub fn read(volume: &Arc<Volume>, ledger: &Ledger) -> Result<(), String> {
    while !ledger.is_stopped() {
        let began = Instant::now();
        let snapshot = match volume.snapshot() {
            Ok(snapshot) => snapshot,
            Err(error) if error.errno == libc::EBUSY => {
                std::thread::sleep(WAIT_FOR_OTHER);
                continue;
            }
            Err(error) => return Err(error.to_string()),
        };
        let read = || Snapshot::of_instant(&snapshot);
        match read().and_then(|first| Ok((first, read()?))) {
            Ok((first, second)) if first != second => {
                let difference = second.difference(&first);
                return Err(format!("a snapshot changed:\n{difference}"));
            }
            Ok((first, _)) => {
                fits_together(&first)?;
                ledger.header().snapshots.fetch_add(1, Ordering::AcqRel);
            }
            // Programs needed the space that it held.
            Err(Errno(libc::ESTALE)) => {}
            Err(errno) => return Err(format!("a snapshot cannot be read: {errno}")),
        }
        drop(snapshot);
        std::thread::sleep(began.elapsed());
    }
    Ok(())
}

/// Operations change several inodes at once. In a snapshot they are there wholly or not at all: each token is in one room, and files
/// have as many names as they count.
fn fits_together(snapshot: &Snapshot) -> Result<(), String> {
    let mut names: BTreeMap<InodeNumber, u32> = BTreeMap::new();
    for (path, attributes) in snapshot.paths() {
        *names.entry(attributes.ino).or_default() += 1;
        let is_named = attributes.kind() == FileKind::Directory || attributes.nlink > 0;
        if !is_named {
            return Err(format!("{path} of a snapshot has no name"));
        }
    }
    for (path, attributes) in snapshot.paths() {
        let found = names[&attributes.ino];
        if attributes.kind() != FileKind::Directory && attributes.nlink != found {
            let counted = attributes.nlink;
            return Err(format!(
                "{path} counts {counted} names in a snapshot, and has {found}"
            ));
        }
    }
    let is_there = |path: &str| snapshot.paths().any(|(found, _)| found == path);
    for token in 0..TOKENS {
        let rooms = (0..ROOMS).filter(|room| is_there(&format!("/room{room}/token{token}")));
        let count = rooms.count();
        if count != 1 {
            return Err(format!("token {token} is in {count} rooms of a snapshot"));
        }
    }
    Ok(())
}
