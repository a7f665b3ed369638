//! Committing staged entries: one log by its commit word, several through a journal.

use crate::format::*;
use crate::log::Log;
use crate::log::staging::{NEW, Staged};
use crate::session::Snapshots;
use crate::space::operation::Operation;
use crate::types::{Errno, Outcome};
use egeria_media::PoolIndex;

impl Log<'_> {
    /// Commit one log: everything stored and flushed before becomes durable and visible together.
    #[inline(always)]
    pub(crate) fn commit_one(self, staged: &Staged) -> Outcome<()> {
        if staged.snapshot != 0 {
            self.keep_for_snapshot(&[staged]);
        }
        let pair = staged.pair();
        let pool = self.volume.pool(pair.pool)?;
        // Data, entries and links first; only then the tail that makes them valid.
        pool.fence_and_commit_u64(pair.at, pair.value)
            .map_err(|_| Errno(libc::EIO))
    }

    /// Commit several logs, and times of moves, at once through this thread's journal slot.
    pub(crate) fn commit_all(
        self,
        slot: usize,
        staged: &[&Staged],
        moves: &[JournalPair],
    ) -> Outcome<()> {
        if let ([one], []) = (staged, moves) {
            return self.commit_one(one);
        }
        if staged.iter().all(|staged| staged.snapshot != 0) {
            self.keep_for_snapshot(staged);
        }
        let logs = staged.iter().map(|staged| staged.pair());
        let pairs: Vec<JournalPair> = logs.chain(moves.iter().copied()).collect();
        let bytes = encode_journal_pairs(&pairs);
        let at = journal_slot(slot as u64);
        let pool = self.volume.pool(PoolIndex(0))?;
        pool.write_bytes(at + 16, &bytes)
            .map_err(|_| Errno(libc::EIO))?;
        pool.flush(at + 16, bytes.len() as u64);
        // Pairs and everything they point to, before the word that makes them valid.
        pool.fence();
        pool.commit_u64(at, journal_commit_word(slot as u64, &bytes))
            .map_err(|_| Errno(libc::EIO))?;
        self.apply_journal(slot, &pairs)
    }

    /// Keep the records of inodes that are about to change for a snapshot. If one of them was locked before it began, the
    /// operation is in it with all of them: then none is kept here, and all are kept after the commit.
    #[cold]
    #[inline(never)]
    fn keep_for_snapshot(self, staged: &[&Staged]) {
        let numbers = staged.iter().map(|staged| staged.snapshot);
        if let Some(number) = numbers.min().filter(|number| *number != NEW) {
            for staged in staged {
                Snapshots::of(self.volume).keep_or_cancel(staged.ino, number);
            }
        }
    }

    pub(super) fn apply_journal(self, slot: usize, pairs: &[JournalPair]) -> Outcome<()> {
        for pair in pairs {
            let pool = self.volume.pool(pair.pool)?;
            pool.store_u64(pair.at, pair.value)
                .map_err(|_| Errno(libc::EIO))?;
            pool.flush(pair.at, 8);
        }
        let pool = self.volume.pool(PoolIndex(0))?;
        // The words must be durable before the journal is cleared.
        pool.fence();
        pool.commit_u64(journal_slot(slot as u64), 0)
            .map_err(|_| Errno(libc::EIO))
    }

    pub(super) fn read_journal(self, slot: usize) -> Option<Vec<JournalPair>> {
        let at = journal_slot(slot as u64);
        let word = self.volume.load_word(PoolIndex(0), at).ok()?;
        let count = journal_pair_count(word)?;
        let mut bytes = vec![0; count * 16];
        self.volume
            .read_media(PoolIndex(0), at + 16, &mut bytes)
            .ok()?;
        let pairs = decode_journal_pairs(slot as u64, word, &bytes)?;
        let plausible = pairs.iter().all(|pair| {
            let geometry = self.volume.geometry_of(pair.pool);
            geometry.is_some_and(|geometry| geometry.holds(pair.at.block(), 1))
                && [COMMIT_WORD_AT, MOVED_AT].contains(&(pair.at.0 % INODE_BYTES))
        });
        plausible.then_some(pairs)
    }
}

impl Operation<'_> {
    /// As [`Operation::commit`], of one log.
    #[inline(always)]
    pub(crate) fn commit_one(&mut self, staged: &Staged) -> Outcome<()> {
        let outcome = Log::of(self.volume).commit_one(staged);
        self.keep_from(0);
        self.count_commit();
        outcome
    }

    /// Commit the logs that this operation staged. From then on the new runs belong to them, also after an error,
    /// because the word may already be on media: then they are lost until the next session, but never allocated twice.
    pub(crate) fn commit(&mut self, logs: &[&Staged]) -> Outcome<()> {
        self.commit_with_moves(logs, &[])
    }

    /// As [`Operation::commit`], together with times of moves.
    pub(crate) fn commit_with_moves(
        &mut self,
        logs: &[&Staged],
        moves: &[JournalPair],
    ) -> Outcome<()> {
        let outcome = Log::of(self.volume).commit_all(self.me.index, logs, moves);
        self.keep_from(0);
        self.count_commit();
        outcome
    }
}

#[cfg(test)]
mod tests {
    use crate::format::Entry;
    use crate::log::Log;
    use crate::log::staging::Staged;
    use crate::space::free_space::Need;
    use crate::space::operation::Operation;
    use crate::test_volume::{findings, new_volume};
    use crate::*;

    #[test]
    fn commit_that_is_not_applied_keeps_its_pages() {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory");
        let (volume, path) = new_volume(&directory);
        let new = NewInode::of_root(libc::S_IFREG | 0o644);
        let file = volume.create(InodeNumber::ROOT, b"file", &new);
        let ino = file.expect("create").ino;
        let before = volume.space(None).free_blocks;
        {
            let locked = volume.lock(ino.0).expect("lock");
            let mut operation = Operation::new(&volume, locked.me);
            let mut staged = Staged::begin(&locked, Need::Ordinary).expect("begin");
            let entry = Entry::XattrSet {
                name: b"user.a",
                value: &[7; 3000],
            };
            staged.add(&mut operation, &entry, 0).expect("stage");
            operation.commit(&[&staged]).expect("commit");
            let applied = Log::of(&volume).apply_commit(&locked, &staged, || Err(Errno(libc::EIO)));
            assert_eq!(applied, Err(Errno(libc::EIO)));
        }
        assert_eq!(volume.get_xattr(ino, b"user.a"), Ok(vec![7; 3000]));
        assert!(volume.space(None).free_blocks < before, "its page is taken");
        drop(volume);
        assert_eq!(findings(&path), []);
    }
}
