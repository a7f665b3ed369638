//! Counting what is in a tree, while it may be in use.

use crate::format::{Entry, LogPosition};
use crate::log::Log;
use crate::namespace::TreeWalks;
use crate::namespace::quotas::stored::{Stored, is_of_quotas};
use crate::session::inode::Locked;
use crate::session::{Quotas, TreeIndex};
use crate::types::*;
use std::collections::HashMap;
use std::sync::atomic::Ordering;

/// What becomes of the session's state of an inode that was counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AfterCounting {
    Keep,
    /// The session is being made: it takes no more memory than without limits.
    Unload,
}

/// An inode that a directory names.
struct Named {
    ino: u64,
    generation: u32,
    is_directory: bool,
}

impl TreeWalks<'_> {
    /// Count all trees that have limits on media. For the thread that makes the session.
    pub(crate) fn count_limited(self) -> Outcome<()> {
        let quotas = Quotas::of(self.volume);
        let mut begun = Vec::new();
        for stored in self.stored()? {
            let certificate = match self.volume.read_record(stored.top) {
                Ok(record) => record.certificate,
                // It was removed, or is damaged, which is reported.
                Err(_) => continue,
            };
            let is_top = certificate.generation == stored.generation
                && FileKind::from_mode(certificate.mode) == Some(FileKind::Directory);
            if is_top {
                let tree = quotas.begin_tree(stored.top, stored.generation)?;
                begun.push((tree, stored));
            }
        }
        for (tree, stored) in begun {
            let top = (stored.top, stored.generation);
            self.count(tree, top, AfterCounting::Unload)?;
            quotas.limit(tree, stored.limits);
        }
        Ok(())
    }

    fn stored(self) -> Outcome<Vec<Stored>> {
        let root = self.volume.lock_beside_leases(InodeNumber::ROOT.0)?;
        // Damage there was reported, and prevents no use of the volume.
        let all = Log::of(self.volume)
            .xattrs(root.inode, root.log_place())
            .unwrap_or_default();
        let mut stored = Vec::new();
        for (name, value) in all.iter().filter(|(name, _)| is_of_quotas(name)) {
            match Stored::parse(name, value) {
                Some(one) => stored.push(one),
                None => {
                    self.volume.damaged(root.ino, "limits of a directory tree");
                }
            }
        }
        Ok(stored)
    }

    /// Have a tree count all that is in it. Returns files with more names than were found, and how many more.
    pub(super) fn count(
        self,
        tree: TreeIndex,
        top: (u64, u32),
        after: AfterCounting,
    ) -> Outcome<HashMap<u64, i64>> {
        let quotas = Quotas::of(self.volume);
        let mut outside = HashMap::new();
        let mut directories = vec![top];
        while let Some((ino, generation)) = directories.pop() {
            for named in self.count_directory(tree, (ino, generation), after)? {
                if named.is_directory {
                    let is_top = |tree: TreeIndex| quotas.top_of(tree).0 == named.ino;
                    if quotas.trees().any(is_top) {
                        outside.insert(named.ino, i64::MAX);
                    } else {
                        directories.push((named.ino, named.generation));
                    }
                    continue;
                }
                self.count_file(tree, &named, &mut outside, after)?;
            }
        }
        outside.retain(|_, more| *more > 0);
        Ok(outside)
    }

    /// Tag a directory, and return what it names. A directory that cannot be read has nothing.
    fn count_directory(
        self,
        tree: TreeIndex,
        (ino, generation): (u64, u32),
        after: AfterCounting,
    ) -> Outcome<Vec<Named>> {
        let handle = InodeHandle {
            ino: InodeNumber(ino),
            generation: Some(generation),
        };
        let locked = self.volume.lock_beside_leases(ino);
        let locked = match locked.and_then(|locked| locked.same(handle)?.directory()) {
            Ok(locked) => locked,
            // Removed since, or damaged, which is reported.
            Err(Errno(libc::ESTALE | libc::EIO | libc::ENOTDIR)) => return Ok(Vec::new()),
            Err(errno) => return Err(errno),
        };
        if Quotas::of(self.volume).is_counted_by(locked.inode, tree) {
            // Made since, or named twice on damaged media.
            return Ok(Vec::new());
        }
        Quotas::of(self.volume).move_to(&locked, Some(tree));
        let names = self.names_in(&locked);
        self.end_count(&locked, after);
        names
    }

    fn end_count(self, locked: &Locked<'_>, after: AfterCounting) {
        if after == AfterCounting::Unload {
            self.volume.unload(locked);
        }
    }

    /// What a locked directory names, in one pass over its log.
    fn names_in(self, locked: &Locked<'_>) -> Outcome<Vec<Named>> {
        let mut names = HashMap::new();
        // Damage is reported. What can be read is counted.
        let _ = Log::of(self.volume).walk_log(
            locked.log_place(),
            locked.commit()?,
            LogPosition::NONE,
            &mut |_| Ok(()),
            &mut |position, entry, _| {
                match *entry {
                    Entry::NameAdd { ino, kind, .. } => {
                        names.insert(position, (ino, kind == FileKind::Directory as u8));
                    }
                    Entry::NameRemove { added } => {
                        names.remove(&added);
                    }
                    _ => {}
                }
                Ok(())
            },
        );
        // Under the lock of the directory, which every removal of its names takes.
        let named = names.into_values().filter_map(|(ino, is_directory)| {
            let generation = self.volume.read_record(ino).ok()?.certificate.generation;
            Some(Named {
                ino,
                generation,
                is_directory,
            })
        });
        Ok(named.collect())
    }

    fn count_file(
        self,
        tree: TreeIndex,
        named: &Named,
        outside: &mut HashMap<u64, i64>,
        after: AfterCounting,
    ) -> Outcome<()> {
        if let Some(more) = outside.get_mut(&named.ino) {
            // Another name of a file that was counted.
            *more -= 1;
            return Ok(());
        }
        let handle = InodeHandle {
            ino: InodeNumber(named.ino),
            generation: Some(named.generation),
        };
        let locked = self.volume.lock_beside_leases(named.ino);
        let locked = match locked.and_then(|locked| locked.same(handle)) {
            Ok(locked) => locked,
            Err(Errno(libc::ESTALE | libc::EIO)) => return Ok(()),
            Err(errno) => return Err(errno),
        };
        Quotas::of(self.volume).move_to(&locked, Some(tree));
        let names = locked.inode.nlink.load(Ordering::Relaxed);
        if names > 1 {
            outside.insert(named.ino, i64::from(names) - 1);
        }
        self.end_count(&locked, after);
        Ok(())
    }

    /// Have the tree of a directory count an inode.
    pub(crate) fn move_to_tree_of(self, ino: u64, directory: InodeNumber) -> Outcome<()> {
        let quotas = Quotas::of(self.volume);
        let tree = quotas.tree_in_force(self.volume.inode(directory.0)?);
        let locked = self.volume.lock_beside_leases(ino)?;
        quotas.move_to(&locked, tree);
        Ok(())
    }
}
