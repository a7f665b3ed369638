//! Limits of directory trees: setting, showing, and counting what is in a tree.
//!
//! The limits are attributes of the root directory, one per tree: the name has the inode number of the top, and the
//! value its generation and the limits. So recovery knows all trees after reading one log, and a volume without limits
//! costs nothing. What is used is not stored: recovery counts it, by a walk through the names of the limited trees.
//!
//! A tree with content can get limits while it is in use. Its directories are tagged from the top downwards. Before a
//! directory is tagged, its files may be moved to untagged directories; afterwards, nothing leaves it by a rename or a
//! link, and what is made in it is counted from the beginning. The names that it has then are counted after that, each
//! under its own lock. Directories do not move, because the lock of renames is held.

mod counting;
mod stored;

pub(crate) use stored::is_of_quotas;

use crate::format::{BLOCK, Entry};
use crate::namespace::{Metadata, TreeWalks};
use crate::requests::{VolumeError, failure};
use crate::session::volume::Volume;
use crate::session::{Amounts, Quotas, TreeIndex};
use crate::space::free_space::Need;
use crate::types::*;
use counting::AfterCounting;
use egeria_machine::format_bytes;
use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use stored::Stored;

/// Trees that a text about limits names at most.
const QUOTAS_NAMED: usize = 3;

/// Limits of a directory tree; at least one is set.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct QuotaLimits {
    /// Most bytes of its files, rounded down to blocks.
    pub bytes: Option<u64>,
    /// Most inodes, with the directory at the top.
    pub inodes: Option<u64>,
}

/// A directory tree with limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Quota {
    /// The directory at the top.
    pub top: InodeNumber,
    pub limits: QuotaLimits,
    /// Bytes of the blocks of its files and symbolic links, as `st_blocks` shows them.
    pub used_bytes: u64,
    pub used_inodes: u64,
}

impl Quota {
    /// What is left of the limit that is nearer, in parts of 1,000.
    fn left_permille(&self) -> u64 {
        let left = |limit: Option<u64>, used: u64| {
            let limit = limit?;
            Some(limit.saturating_sub(used).saturating_mul(1000) / limit)
        };
        let bytes = left(self.limits.bytes, self.used_bytes);
        let inodes = left(self.limits.inodes, self.used_inodes);
        bytes.into_iter().chain(inodes).min().unwrap_or(1000)
    }
}

impl Volume {
    /// Limit a directory tree, or change its limits. What is in it is counted, while it may be in use. From then on
    /// nothing is renamed or linked into it or out of it (`EXDEV`), and allocations beyond a limit fail (`EDQUOT`).
    ///
    /// # Errors
    /// `EINVAL` for no limits, for less than a block, and for a tree within another one or around one; `ENOTDIR`;
    /// `EXDEV` when a file in it has names outside; `ENOSPC` for more trees than there may be; what [every
    /// change](crate::Errno) can fail with.
    pub fn set_quota(
        &self,
        top: impl Into<InodeHandle>,
        limits: QuotaLimits,
    ) -> Result<(), VolumeError> {
        let limits = amounts_of(limits)?;
        let top = top.into();
        TreeWalks::of(self).set(top, limits)
    }

    /// Remove the limits of a directory tree.
    ///
    /// # Errors
    /// `ENODATA` when it has none; what [every change](crate::Errno) can fail with.
    pub fn remove_quota(&self, top: impl Into<InodeHandle>) -> Result<(), VolumeError> {
        TreeWalks::of(self).remove(top.into())
    }

    /// The tree with limits that counts an inode; `None`: none does. Waits for no other thread.
    pub fn quota_of(&self, ino: InodeNumber) -> Option<Quota> {
        let quotas = Quotas::of(self);
        let tree = quotas.tree_in_force(self.inode(ino.0).ok()?)?;
        (quotas.limits(tree) != Amounts::default()).then(|| self.quota_in(tree))
    }

    /// All trees with limits.
    pub fn quotas(&self) -> Vec<Quota> {
        let quotas = Quotas::of(self);
        let is_limited = |tree: &TreeIndex| quotas.limits(*tree) != Amounts::default();
        let trees = quotas.trees().filter(is_limited);
        trees.map(|tree| self.quota_in(tree)).collect()
    }

    fn quota_in(&self, tree: TreeIndex) -> Quota {
        let quotas = Quotas::of(self);
        let (limits, used) = (quotas.limits(tree), quotas.usage(tree));
        let is_set = |limit: &u64| *limit != 0;
        Quota {
            top: InodeNumber(quotas.top_of(tree).0),
            limits: QuotaLimits {
                bytes: Some(limits.blocks)
                    .filter(is_set)
                    .map(|blocks| blocks.saturating_mul(BLOCK as u64)),
                inodes: Some(limits.inodes).filter(is_set),
            },
            used_bytes: used.blocks.saturating_mul(BLOCK as u64),
            used_inodes: used.inodes,
        }
    }

    /// Path of the directory at the top, from the root of the volume on.
    pub fn path_of_quota(&self, quota: &Quota) -> PathBuf {
        let path = TreeWalks::of(self).path_of(quota.top.0);
        path.unwrap_or_default()
    }

    /// What is left in the fullest trees with limits, in words: `/home/alice has 0 B of 1 GiB and 7 of 100 inodes left,
    /// /home/bob has …`.
    pub fn quotas_left(&self) -> String {
        let mut all = self.quotas();
        all.sort_by_key(|quota| quota.left_permille());
        let texts = all.iter().take(QUOTAS_NAMED).map(|quota| {
            let path = TreeWalks::of(self).name_of(quota.top.0);
            let bytes = quota.limits.bytes.map(|limit| {
                let left = limit.saturating_sub(quota.used_bytes);
                format!("{} of {}", format_bytes(left), format_bytes(limit))
            });
            let inodes = quota.limits.inodes.map(|limit| {
                let left = limit.saturating_sub(quota.used_inodes);
                format!("{left} of {limit} inodes")
            });
            let left: Vec<String> = bytes.into_iter().chain(inodes).collect();
            format!("{path} has {} left", left.join(" and "))
        });
        texts.collect::<Vec<_>>().join(", ")
    }

    /// Space as `statfs` shows it at an inode: in a tree with limits, what the limits leave.
    pub fn space_at(&self, ino: InodeNumber) -> SpaceReport {
        let space = self.space(None);
        match self.quota_of(ino) {
            None => space,
            Some(quota) => space_within(space, &quota),
        }
    }

    /// What a tree with limits uses, counted by its names: bytes, and inodes. For tests: equal to [`Quota`] as long as
    /// no removed file of the tree is open and nothing changes.
    ///
    /// # Errors
    /// `ESTALE`, `ENOTDIR`; `EIO` for damage.
    pub fn recount_quota(&self, top: InodeNumber) -> Outcome<(u64, u64)> {
        let mut found = HashMap::from([(top, 0)]);
        let mut directories = vec![top];
        while let Some(directory) = directories.pop() {
            let mut names = Vec::new();
            self.read_directory(directory, 0, &mut |entry| {
                if entry.name != b"." && entry.name != b".." {
                    names.push((entry.ino, entry.kind));
                }
                true
            })?;
            for (ino, kind) in names {
                let blocks = match kind {
                    FileKind::Directory => 0,
                    _ => self.attributes(ino)?.blocks,
                };
                if found.insert(ino, blocks).is_none() && kind == FileKind::Directory {
                    directories.push(ino);
                }
            }
        }
        let blocks: u64 = found.values().sum();
        Ok((blocks * BLOCK as u64, found.len() as u64))
    }
}

impl TreeWalks<'_> {
    fn set(self, top: InodeHandle, limits: Amounts) -> Result<(), VolumeError> {
        let failed = |errno: Errno| {
            let message = format!("cannot set limits: {errno}; try again");
            failure(errno.0, message)
        };
        self.volume.writable().map_err(|_| read_only())?;
        let _held = self.volume.session.lock_renames().map_err(failed)?;
        let quotas = Quotas::of(self.volume);
        quotas.retire_unfinished();
        let (ino, generation) = self.handle_of(top)?;
        let stored = Stored {
            top: ino,
            generation,
            limits,
        };
        let known = quotas
            .trees()
            .find(|tree| quotas.top_of(*tree) == (ino, generation));
        if let Some(tree) = known {
            self.store(&stored).map_err(failed)?;
            quotas.limit(tree, limits);
            return Ok(());
        }
        let inode = self.volume.inode(ino).map_err(failed)?;
        if let Some(outer) = quotas.tree_in_force(inode) {
            let outer = self.name_of(quotas.top_of(outer).0);
            let message = format!("it lies in {outer}, which has limits; remove those first");
            return Err(failure(libc::EINVAL, message));
        }
        let tree = quotas.begin_tree(ino, generation).map_err(|errno| {
            let hint = match errno.0 {
                libc::ENOSPC => "remove the limits of another tree",
                _ => "free space in /dev/shm",
            };
            failure(errno.0, format!("no more limits: {errno}; {hint}"))
        })?;
        let counted = self
            .count(tree, (ino, generation), AfterCounting::Keep)
            .map_err(failed)
            .and_then(|outside| self.check_counted(tree, outside))
            .and_then(|()| self.store(&stored).map_err(failed));
        match counted {
            Ok(()) => quotas.limit(tree, limits),
            Err(_) => quotas.retire(tree),
        }
        counted
    }

    fn remove(self, top: InodeHandle) -> Result<(), VolumeError> {
        let failed = |errno: Errno| {
            let message = format!("cannot remove the limits: {errno}; try again");
            failure(errno.0, message)
        };
        self.volume.writable().map_err(|_| read_only())?;
        let _held = self.volume.session.lock_renames().map_err(failed)?;
        let quotas = Quotas::of(self.volume);
        quotas.retire_unfinished();
        let (ino, generation) = self.handle_of(top)?;
        let known = quotas
            .trees()
            .find(|tree| quotas.top_of(*tree) == (ino, generation));
        let tree = known.ok_or_else(|| {
            let message = "it has no limits; `egeria quota show` lists the trees that have some";
            failure(libc::ENODATA, message)
        })?;
        let root = self.volume.lock(InodeNumber::ROOT.0).map_err(failed)?;
        let name = stored::attribute_of(ino);
        let entry = Entry::XattrRemove { name: &name };
        Metadata::of(self.volume)
            .commit_xattr(&root, &entry, Need::Freeing)
            .map_err(failed)?;
        quotas.retire(tree);
        Ok(())
    }

    /// Number and generation of a directory that is there.
    fn handle_of(self, top: InodeHandle) -> Result<(u64, u32), VolumeError> {
        let refused = |errno: Errno| {
            let message = format!("cannot use it as the top of a tree: {errno}; name a directory");
            failure(errno.0, message)
        };
        let locked = self.volume.lock_beside_leases(top.ino.0);
        let locked = locked.and_then(|locked| locked.same(top)?.directory());
        let locked = locked.map_err(refused)?;
        if locked.inode.nlink.load(Ordering::Relaxed) == 0 {
            return Err(refused(Errno(libc::ENOENT)));
        }
        let generation = locked.inode.generation.load(Ordering::Relaxed);
        Ok((locked.ino, generation))
    }

    /// Commit limits.
    fn store(self, stored: &Stored) -> Outcome<()> {
        let root = self.volume.lock(InodeNumber::ROOT.0)?;
        let (name, value) = (stored.name(), stored.value());
        let entry = Entry::XattrSet {
            name: &name,
            value: &value,
        };
        Metadata::of(self.volume).commit_xattr(&root, &entry, Need::Ordinary)
    }

    /// Refuse a tree with another one in it, or with files that have names outside.
    fn check_counted(self, tree: TreeIndex, outside: HashMap<u64, i64>) -> Result<(), VolumeError> {
        let Some((ino, more)) = outside.into_iter().next() else {
            let is_there = Quotas::of(self.volume).usage(tree).inodes > 0;
            let removed = || failure(libc::ENOENT, "it was removed; name a directory");
            return is_there.then_some(()).ok_or_else(removed);
        };
        if more == i64::MAX {
            let inner = self.name_of(ino);
            let message = format!("{inner} in it has limits; remove those first");
            return Err(failure(libc::EINVAL, message));
        }
        let top = self.name_of(Quotas::of(self.volume).top_of(tree).0);
        let message = format!(
            "inode {ino} has names in {top} and outside; copy the file, `find -inum {ino}` finds its names"
        );
        Err(failure(libc::EXDEV, message))
    }

    /// Path of a directory from the root of the volume on; `None`: it is not known.
    fn path_of(self, directory: u64) -> Option<PathBuf> {
        let ino = InodeNumber(directory);
        let mut path = b"/".to_vec();
        if ino != InodeNumber::ROOT {
            let above = self.volume.lookup(ino, b"..").ok()?.ino;
            path.extend(self.volume.path_to(above, b"", ino)?);
        }
        Some(PathBuf::from(OsString::from_vec(path)))
    }

    /// The path of a directory, for a line of text.
    fn name_of(self, directory: u64) -> String {
        let shown = |letter: char| if letter.is_control() { '?' } else { letter };
        match self.path_of(directory) {
            Some(path) => path.to_string_lossy().chars().map(shown).collect(),
            None => format!("directory inode {directory}"),
        }
    }
}

fn read_only() -> VolumeError {
    failure(
        libc::EROFS,
        "the volume is attached for reading only; attach it for changes",
    )
}

fn amounts_of(limits: QuotaLimits) -> Result<Amounts, VolumeError> {
    let amounts = Amounts {
        blocks: limits.bytes.map_or(0, |bytes| bytes / BLOCK as u64),
        inodes: limits.inodes.unwrap_or(0),
    };
    let is_small = limits.bytes.is_some() && amounts.blocks == 0 || limits.inodes == Some(0);
    if is_small {
        let message = "a limit is less than a block of 4096 bytes, or no inode; give a larger one";
        return Err(failure(libc::EINVAL, message));
    }
    if amounts == Amounts::default() {
        let message = "no limit is given; give bytes, inodes or both";
        return Err(failure(libc::EINVAL, message));
    }
    Ok(amounts)
}

/// As XFS shows a project: the limits in the place of the sizes, and what they leave, as far as the volume has it.
fn space_within(space: SpaceReport, quota: &Quota) -> SpaceReport {
    let mut within = space;
    if let Some(bytes) = quota.limits.bytes {
        let (limit, used) = (bytes / BLOCK as u64, quota.used_bytes / BLOCK as u64);
        let left = limit.saturating_sub(used);
        within.blocks = limit.min(space.blocks);
        within.free_blocks = left.min(space.free_blocks);
        within.available_blocks = left.min(space.available_blocks);
    }
    if let Some(limit) = quota.limits.inodes {
        within.inodes = limit.min(space.inodes);
        within.free_inodes = limit
            .saturating_sub(quota.used_inodes)
            .min(space.free_inodes);
    }
    within
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_larger_than_the_volume_shows_the_volume() {
        let space = SpaceReport {
            blocks: 100,
            free_blocks: 30,
            available_blocks: 20,
            inodes: 50,
            free_inodes: 40,
        };
        let quota = |bytes, used_bytes| Quota {
            top: InodeNumber::ROOT,
            limits: QuotaLimits {
                bytes: Some(bytes),
                inodes: None,
            },
            used_bytes,
            used_inodes: 1,
        };
        assert_eq!(space_within(space, &quota(4096 << 20, 4096)), space);
        let small = space_within(space, &quota(10 * 4096, 4 * 4096));
        let shown = (small.blocks, small.free_blocks, small.available_blocks);
        assert_eq!(shown, (10, 6, 6));
        let over = space_within(space, &quota(10 * 4096, 14 * 4096));
        assert_eq!(over.available_blocks, 0);
        assert_eq!(over.inodes, 50);
    }
}
