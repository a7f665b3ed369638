//! Files on any file system, as far as they are in the page cache of nodes.

use std::ops::Range;

use egeria_facts::FileKey;
use egeria_machine::NodeId;
use egeria_pages::cached;
use egeria_pages::found_files::FoundFiles;
use egeria_pages::room;
use egeria_pages::warm::{self, CachedPages};
use egeria_policy::ActionOutcome;

use crate::movable::{MovableFiles, Part, refused};

/// A huge page, so that none is split.
const PART_BYTES: u64 = 2 << 20;

pub(crate) struct PageCache {
    found: FoundFiles,
    pages: CachedPages,
}

impl PageCache {
    pub(crate) fn new(found: FoundFiles) -> std::io::Result<PageCache> {
        Ok(PageCache {
            found,
            pages: CachedPages::new()?,
        })
    }
}

impl MovableFiles for PageCache {
    fn part_bytes(&self) -> u64 {
        PART_BYTES
    }

    fn check(
        &self,
        file: FileKey,
        (_, to): (NodeId, NodeId),
        bytes: u64,
    ) -> Result<(), ActionOutcome> {
        let opened = match self.found.open(file) {
            Ok(opened) => Some(opened),
            // What used it has ended, and others may come: it is waited for.
            Err(_) if self.found.path(file).is_some() => None,
            Err(_) => return Err(ActionOutcome::Vanished),
        };
        let movable = opened.map(|opened| warm::check_movable(&opened));
        if let Some(Err(error)) = movable {
            return Err(refused(&error.to_string()));
        }
        if room::of(to).is_some_and(|room| room < bytes) {
            Err(refused("that node has no memory left for it"))
        } else {
            Ok(())
        }
    }

    fn size_bytes(&self, file: FileKey) -> Option<u64> {
        let metadata = self.found.open(file).ok()?.metadata().ok()?;
        Some(metadata.len())
    }

    fn next_part(&self, file: FileKey, at: u64) -> u64 {
        // If the file cannot be queried, all its parts are checked.
        let opened = self.found.open(file);
        let next = opened.and_then(|opened| cached::next_part(&opened, at, PART_BYTES));
        next.unwrap_or(at)
    }

    fn move_part(&self, file: FileKey, range: Range<u64>, ends: (NodeId, NodeId)) -> Part {
        let Ok(opened) = self.found.open(file) else {
            return Part {
                is_away: true,
                ..Part::default()
            };
        };
        match self.pages.move_range(&opened, range, ends) {
            Ok(moved) => Part {
                moved_bytes: moved.moved_bytes,
                is_given_up: moved.left_bytes > 0,
                ..Part::default()
            },
            Err(_) => Part {
                is_given_up: true,
                ..Part::default()
            },
        }
    }
}
