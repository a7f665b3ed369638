//! Session memory for holes, by owner of files.
//!
//! The index of a file without large holes takes a 512th of the file's bytes. For blocks far apart it takes up to 20
//! KiB per block. So any user with write permission could use up the session's memory. Index pages beyond what a
//! file's blocks need are counted for the file's owner, and limited; the owner of the session and root have no limit.
//!
//! A file is counted again whenever a write makes its index grow, and removed from the count when its index is freed.
//! So reads are never refused. Holes that existed before the session, or were punched since, count from the next such
//! write on. Counts are hints: a killed process leaves one wrong by a few pages until the session ends.

use crate::session::layout::{HoleAccount, HoleAccounts, SessionInode};
use crate::types::{Errno, Outcome};
use std::sync::atomic::Ordering;

/// Part of the machine's memory that the holes of one owner may take, and the minimum of this limit, bytes.
const PART_OF_MEMORY: u64 = 16;
const MIN_LIMIT_BYTES: u64 = 16 << 20;
/// Blocks of a file to each page of its index: as many as a leaf with checksums has.
const BLOCKS_PER_PAGE: u64 = 256;
/// Pages of an index that are not counted: the height of the tree of a small file.
const FREE_PAGES: u64 = 6;

impl HoleAccounts {
    /// Before any other process sees the session.
    pub fn begin(&self, session_owner: u32, limit_pages: u64) {
        self.session_owner
            .store(session_owner.wrapping_add(1), Ordering::Relaxed);
        self.limit_pages.store(limit_pages, Ordering::Relaxed);
    }

    /// Pages that the holes of one owner may take on this machine.
    pub fn usual_limit_pages() -> u64 {
        let memory = rustix::system::sysinfo();
        let bytes = (memory.totalram as u64).saturating_mul(memory.mem_unit.into());
        (bytes / PART_OF_MEMORY).max(MIN_LIMIT_BYTES) / crate::format::BLOCK as u64
    }

    /// Count the pages of an inode's index for its owner, plus one that it needs now. Under the inode's lock.
    ///
    /// # Errors
    /// `ENOMEM` when the owner's holes would take more than they may.
    #[cold]
    pub fn charge(&self, inode: &SessionInode) -> Outcome<()> {
        let uid = inode.uid.load(Ordering::Relaxed);
        let pages = u64::from(inode.index_pages.load(Ordering::Relaxed)) + 1;
        let blocks = inode.blocks.load(Ordering::Relaxed);
        let excess = pages.saturating_sub(blocks / BLOCKS_PER_PAGE + FREE_PAGES);
        let before = self.discharge(inode);
        let account = self.account(uid);
        let limit = self.limit_pages.load(Ordering::Relaxed);
        let is_unlimited = limit == 0
            || uid == 0
            || uid.wrapping_add(1) == self.session_owner.load(Ordering::Relaxed);
        let taken = account.pages.load(Ordering::Relaxed);
        let refused = !is_unlimited && excess > before && taken.saturating_add(excess) > limit;
        let charged = if refused { before } else { excess };
        account.pages.fetch_add(charged, Ordering::Relaxed);
        inode
            .hole_pages
            .store(charged.min(u32::MAX.into()) as u32, Ordering::Relaxed);
        inode.hole_uid.store(uid, Ordering::Relaxed);
        if refused {
            Err(Errno(libc::ENOMEM))
        } else {
            Ok(())
        }
    }

    /// Count one more page of an inode's index. Under the inode's lock.
    pub fn add_page(&self, inode: &SessionInode) {
        inode.index_pages.fetch_add(1, Ordering::Relaxed);
    }

    /// Remove an inode without index pages from the count. Under the inode's lock.
    pub fn forget(&self, inode: &SessionInode) {
        self.discharge(inode);
        inode.index_pages.store(0, Ordering::Relaxed);
    }

    /// Remove an inode from the count; returns the number of pages. Under the inode's lock.
    fn discharge(&self, inode: &SessionInode) -> u64 {
        let charged = u64::from(inode.hole_pages.swap(0, Ordering::Relaxed));
        if charged > 0 {
            let account = self.account(inode.hole_uid.load(Ordering::Relaxed));
            let less = |pages: u64| Some(pages.saturating_sub(charged));
            let _ = account
                .pages
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        }
        charged
    }

    fn account(&self, uid: u32) -> &HoleAccount {
        let own = uid.wrapping_add(1);
        let (last, first) = self.accounts.split_last().expect("accounts");
        let is_own = |account: &&HoleAccount| {
            let taken = account
                .uid
                .compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed);
            taken.is_ok() || taken == Err(own)
        };
        first.iter().find(is_own).unwrap_or(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn accounts() -> Box<HoleAccounts> {
        // SAFETY: atomics only; all zeros is what a new session holds.
        unsafe { Box::<HoleAccounts>::new_zeroed().assume_init() }
    }

    fn inode(uid: u32, pages: u32, blocks: u64) -> Box<SessionInode> {
        // SAFETY: as above.
        let inode = unsafe { Box::<SessionInode>::new_zeroed().assume_init() };
        inode.uid.store(uid, Ordering::Relaxed);
        inode.index_pages.store(pages, Ordering::Relaxed);
        inode.blocks.store(blocks, Ordering::Relaxed);
        inode
    }

    #[test]
    fn holes_of_one_owner_are_limited_and_leave_room_to_others() {
        let accounts = accounts();
        accounts.begin(1000, 100);
        let (first, second) = (inode(7, 80, 1), inode(7, 80, 1));
        assert_eq!(accounts.charge(&first), Ok(()));
        assert_eq!(accounts.charge(&second), Err(Errno(libc::ENOMEM)));
        assert_eq!(accounts.charge(&inode(8, 80, 1)), Ok(()), "another owner");
        for unlimited in [0, 1000] {
            assert_eq!(accounts.charge(&inode(unlimited, 8000, 1)), Ok(()));
        }
        accounts.forget(&first);
        assert_eq!(accounts.charge(&second), Ok(()), "freed");
        assert_eq!(first.index_pages.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn files_without_holes_count_nothing() {
        let accounts = accounts();
        accounts.begin(1000, 100);
        let dense = inode(7, 40_000, 512 * 40_000);
        assert_eq!(accounts.charge(&dense), Ok(()));
        assert_eq!(dense.hole_pages.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn owner_changes_move_the_count() {
        let accounts = accounts();
        accounts.begin(1000, 100);
        let file = inode(7, 80, 1);
        assert_eq!(accounts.charge(&file), Ok(()));
        file.uid.store(8, Ordering::Relaxed);
        assert_eq!(accounts.charge(&file), Ok(()));
        assert_eq!(
            accounts.charge(&inode(7, 90, 1)),
            Ok(()),
            "7 has room again"
        );
        assert_eq!(accounts.charge(&inode(8, 90, 1)), Err(Errno(libc::ENOMEM)));
    }

    #[test]
    fn more_owners_than_accounts_share_the_last() {
        let accounts = accounts();
        accounts.begin(1000, 100);
        for uid in 1..=70 {
            let _ = accounts.charge(&inode(uid, 30, 1));
        }
        assert_eq!(accounts.charge(&inode(1, 60, 1)), Ok(()));
        assert_eq!(accounts.charge(&inode(90, 90, 1)), Err(Errno(libc::ENOMEM)));
    }

    #[test]
    fn writes_far_apart_by_one_user_end_and_those_of_others_do_not() {
        use crate::test_volume::new_volume;
        use crate::*;
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let volume = new_volume(&directory).0;
        volume.session.arena().holes().begin(1000, 100);
        let file_of = |name: &[u8], uid: u32| {
            let new = NewInode {
                mode: libc::S_IFREG | 0o644,
                uid,
                gid: uid,
                rdev: 0,
            };
            let ino = volume
                .create(InodeNumber::ROOT, name, &new)
                .expect("create")
                .ino;
            volume.open(ino, None).expect("open")
        };
        let (first, second) = (file_of(b"first", 7), file_of(b"second", 8));
        let far = |file, count: u64| {
            (0..count).try_for_each(|at| volume.write(file, at << 30, b"far").map(drop))
        };
        assert_eq!(far(first, 200), Err(Errno(libc::ENOMEM)));
        assert_eq!(volume.write(first, 8192, b"near"), Ok(4));
        assert_eq!(far(second, 5), Ok(()));
        let empty = AttributeChange {
            size_bytes: Some(0),
            ..Default::default()
        };
        volume
            .set_attributes(first.ino(), &empty)
            .expect("truncate");
        assert_eq!(far(first, 5), Ok(()), "what was freed is there again");
    }
}
