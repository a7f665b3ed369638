//! Forging what leads to logs: commit words, links, page headers, certificates, pointers, journals.

use super::super::values::HostileValues;
use super::forge::Forge;
use super::layout::Page;
use egeria_engine::format::*;
use egeria_media::{BlockNumber, PoolIndex, PoolOffset};

impl Forge<'_> {
    /// Let a log end elsewhere, begin from its other head, or be an orphan's; or let its inode have been moved.
    pub(super) fn change_commit(&mut self) {
        let Some(record) = self.any_record() else {
            return;
        };
        let at = record.at + COMMIT_WORD_AT;
        let word = self.load(record.pool, at);
        let old = CommitWord::decode(word, record.ino).ok().flatten();
        let mut commit = old.unwrap_or(CommitWord {
            tail: LogPosition::NONE,
            head_index: 0,
            orphan: false,
        });
        match self.rng.below(7) {
            0 => commit.tail = LogPosition::NONE,
            1 => commit.tail = commit.tail.at_line(self.rng.below(128) as u8),
            2 => commit.tail = self.any_position(),
            3 => commit.head_index ^= 1,
            4 => commit.orphan = !commit.orphan,
            5 => {
                let age_ns = self.rng.boundary_value() as i64;
                let word = encode_moved(record.ino, 0, age_ns).unwrap_or(age_ns as u64);
                self.line(|| format!("inode {}: moved {word:#x}", record.ino));
                return self.store(record.pool, record.at + MOVED_AT, word);
            }
            _ => return self.store(record.pool, at, 0),
        }
        self.line(|| format!("inode {}: {commit:?}", record.ino));
        self.store(record.pool, at, commit.encode(record.ino));
    }

    /// Let a head or a page lead elsewhere.
    pub(super) fn change_link(&mut self) {
        let target = self.any_position();
        if self.rng.one_in(2)
            && let Some(record) = self.any_record()
        {
            let head = self.rng.below(2);
            self.line(|| format!("head {head} of inode {}: {target:?}", record.ino));
            let word = encode_link(record.ino, target);
            return self.store(record.pool, record.at + HEADS_AT + 8 * head, word);
        }
        if let Some(page) = self.any_page() {
            self.line(|| {
                format!(
                    "behind block {} (inode {}): {target:?}",
                    page.block, page.ino
                )
            });
            let at = page.position(0).offset() + NEXT_PAGE_AT;
            self.store(page.pool, at, encode_link(page.ino, target));
        }
    }

    /// Lead a log to a page that is not its own, with a header as if it were; its tail with it.
    pub(super) fn change_chain(&mut self) {
        let (Some(from), Some(to)) = (self.any_page(), self.any_page()) else {
            return;
        };
        let block = if self.rng.one_in(3) {
            self.any_block()
        } else {
            to.block
        };
        let to = Page {
            block,
            ino: from.ino,
            generation: from.generation,
            sequence: from.sequence.wrapping_add(1),
            ..to
        };
        let header = encode_page_header(to.ino, to.generation, to.position(0), to.sequence);
        self.line(|| {
            format!(
                "inode {}: from block {} to block {block}",
                from.ino, from.block
            )
        });
        self.write(
            to.pool,
            to.position(0).offset(),
            &header[..NEXT_PAGE_AT as usize],
        );
        let link = encode_link(from.ino, to.position(0));
        self.store(from.pool, from.position(0).offset() + NEXT_PAGE_AT, link);
        let line = 1 + self.rng.below(64) as u8;
        if let Some(record) = self.sample.layout.record(from.ino).copied()
            && self.rng.one_in(2)
        {
            let at = record.at + COMMIT_WORD_AT;
            let word = self.load(record.pool, at);
            if let Ok(Some(commit)) = CommitWord::decode(word, record.ino) {
                let tail = to.position(line);
                let commit = CommitWord { tail, ..commit };
                self.store(record.pool, at, commit.encode(record.ino));
            }
        }
    }

    /// Let an inode be born otherwise.
    pub(super) fn change_certificate(&mut self) {
        const KINDS: [u32; 8] = [
            libc::S_IFREG,
            libc::S_IFDIR,
            libc::S_IFLNK,
            libc::S_IFIFO,
            libc::S_IFSOCK,
            libc::S_IFCHR,
            libc::S_IFBLK,
            0,
        ];
        let Some(record) = self.any_record() else {
            return;
        };
        let at = record.at + CERTIFICATE_AT;
        let bytes: [u8; LINE] = self.read(record.pool, at);
        let Some(mut certificate) = Certificate::decode(&bytes, record.ino) else {
            return;
        };
        let hostile = self.rng.boundary_value();
        match self.rng.below(10) {
            0 | 1 => certificate.mode = KINDS[self.rng.index(8)] | hostile as u32 & 0o7777,
            2 => certificate.nlink = hostile as u32,
            3 => certificate.parent = self.any_ino(),
            4 => certificate.generation = hostile as u32,
            5 => certificate.birth_ns = hostile as i64,
            6 => certificate.checksums = !certificate.checksums,
            7 => certificate.layout = LayoutWord(1 << self.rng.below(20)),
            8 => certificate.layout = LayoutWord(hostile as u32),
            _ => certificate.ino = self.any_ino(),
        }
        self.line(|| format!("inode {}: {certificate:?}", record.ino));
        self.write(record.pool, at, &certificate.encode());
    }

    /// Let records lie elsewhere: in a log, a file, another pool's place.
    pub(super) fn change_pointer(&mut self) {
        let pool = self.any_pool();
        let geometry = self.sample.layout.geometry[pool];
        let chunk = if self.rng.one_in(4) {
            self.rng.below(geometry.inode_blocks)
        } else {
            self.rng.below(4)
        };
        let block = self.any_block() & ((1 << 40) - 1);
        self.line(|| format!("records {chunk} of pool {pool}: block {block}"));
        let word = encode_inode_pointer(chunk, BlockNumber(block));
        self.store(pool, inode_pointer(&geometry, chunk), word);
    }

    /// Leave an operation in a journal slot.
    pub(super) fn change_journal(&mut self) {
        let slot = if self.rng.one_in(2) {
            self.rng.below(4)
        } else {
            self.rng.below(JOURNAL_SLOTS)
        };
        let pairs: Vec<JournalPair> = (0..=self.rng.below(MAX_JOURNAL_PAIRS as u64))
            .map(|_| self.any_pair())
            .collect();
        let pairs = &pairs[..pairs.len().min(MAX_JOURNAL_PAIRS)];
        let bytes = encode_journal_pairs(pairs);
        self.line(|| format!("journal slot {slot}: {pairs:?}"));
        self.write(0, journal_slot(slot) + 16, &bytes);
        self.store(0, journal_slot(slot), journal_commit_word(slot, &bytes));
    }

    fn any_pair(&mut self) -> JournalPair {
        let position = self.any_position();
        let known = self.any_record().filter(|_| !self.rng.one_in(6));
        let Some(record) = known else {
            return JournalPair {
                pool: PoolIndex(self.rng.below(3) as u8),
                at: PoolOffset(self.rng.boundary_value() & ((1 << 56) - 1)),
                value: self.rng.boundary_value(),
            };
        };
        let commit = CommitWord {
            tail: position,
            head_index: self.rng.below(2) as u8,
            orphan: self.rng.one_in(3),
        };
        let value = match self.rng.below(4) {
            0 => 0,
            1 => self.load(record.pool, record.at + COMMIT_WORD_AT),
            _ => commit.encode(record.ino),
        };
        JournalPair {
            pool: PoolIndex(record.pool as u8),
            at: record.at + COMMIT_WORD_AT,
            value,
        }
    }
}
