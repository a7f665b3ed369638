//! Reading logs: pages and entries, with checks of their validity.

use crate::format::place::LogPlace;
use crate::format::*;
use crate::log::Log;
use crate::session::inode::Locked;
use crate::types::Outcome;
use std::sync::atomic::Ordering;

impl Log<'_> {
    /// Walk an inode's log from a position (`NONE`: its head) to `commit.tail`. `entry` gets every
    /// entry, `page` every page entered. Damage is `EIO`.
    pub(crate) fn walk_log(
        self,
        place: LogPlace,
        commit: CommitWord,
        from: LogPosition,
        page: &mut dyn FnMut(LogPosition) -> Outcome<()>,
        entry: &mut dyn FnMut(LogPosition, &Entry<'_>, i64) -> Outcome<()>,
    ) -> Outcome<()> {
        if commit.tail == from {
            return Ok(());
        }
        let mut sequence = place.pages_before;
        let mut position = if from.is_none() {
            let head = match place.head {
                Some(head) => head,
                None => {
                    let (pool, at) = self.volume.record_place(place.ino)?;
                    let at = at + HEADS_AT + 8 * commit.head_index as u64;
                    self.volume.load_word(pool, at)?
                }
            };
            self.enter_page(place, head, &mut sequence, page)?
        } else {
            from
        };
        let mut bytes = [0u8; BLOCK];
        while position != commit.tail {
            if position.line() >= PAGE_LINES {
                let next = self
                    .volume
                    .load_word(position.pool(), position.at_line(0).offset() + NEXT_PAGE_AT)?;
                position = self.enter_page(place, next, &mut sequence, page)?;
                continue;
            }
            let (lines, decoded, time_ns) = self.read_entry(place, position, &mut bytes)?;
            entry(position, &decoded, time_ns)?;
            position = position.at_line(position.line() + lines);
        }
        Ok(())
    }

    /// Walk the pages of a log up to the one its tail is in, without looking at entries.
    pub(crate) fn walk_pages(
        self,
        place: LogPlace,
        commit: CommitWord,
        page: &mut dyn FnMut(LogPosition) -> Outcome<()>,
    ) -> Outcome<()> {
        if commit.tail.is_none() {
            return Ok(());
        }
        let (pool, at) = self.volume.record_place(place.ino)?;
        let mut link = self
            .volume
            .load_word(pool, at + HEADS_AT + 8 * commit.head_index as u64)?;
        let mut sequence = 0;
        loop {
            let position = self.enter_page(place, link, &mut sequence, page)?;
            if position.at_line(0) == commit.tail.at_line(0) {
                return Ok(());
            }
            link = self
                .volume
                .load_word(position.pool(), position.at_line(0).offset() + NEXT_PAGE_AT)?;
        }
    }

    fn enter_page(
        self,
        place: LogPlace,
        link: u64,
        sequence: &mut u32,
        page: &mut dyn FnMut(LogPosition) -> Outcome<()>,
    ) -> Outcome<LogPosition> {
        let damaged = |what| self.volume.damaged_in(place, what);
        let next = decode_link(place.ino, link).map_err(|()| damaged("link between log pages"))?;
        let valid = self
            .volume
            .geometry_of(next.pool())
            .is_some_and(|geometry| geometry.holds(next.block(), 1));
        if next.is_none() || !valid {
            return Err(damaged("link between log pages"));
        }
        let mut header = [0u8; LINE];
        self.volume
            .read_media(next.pool(), next.offset(), &mut header)?;
        if !is_page_header(&header, place.ino, place.generation, next, *sequence) {
            return Err(damaged("header of a log page"));
        }
        *sequence = sequence.wrapping_add(1);
        page(next)?;
        Ok(next.at_line(1))
    }

    /// Read and check one entry into `bytes` (a page, or what the entry must fit into); returns its lines, the entry
    /// and its time.
    pub(crate) fn read_entry<'b>(
        self,
        place: LogPlace,
        position: LogPosition,
        bytes: &'b mut [u8],
    ) -> Outcome<(u8, Entry<'b>, i64)> {
        let damaged = || self.volume.damaged_in(place, "a log entry");
        self.volume
            .read_media(position.pool(), position.offset(), &mut bytes[..LINE])?;
        let first: &[u8; LINE] = bytes[..LINE].try_into().expect("one line");
        let lines = claimed_lines(first, position).ok_or_else(damaged)?;
        let whole = bytes.get_mut(..lines as usize * LINE).ok_or_else(damaged)?;
        if lines > 1 {
            self.volume.read_media(
                position.pool(),
                position.offset() + LINE as u64,
                &mut whole[LINE..],
            )?;
        }
        let seal = EntrySeal {
            ino: place.ino,
            generation: place.generation,
            position,
        };
        let (entry, time_ns) = decode_entry(whole, seal).ok_or_else(damaged)?;
        Ok((lines, entry, time_ns))
    }
}

impl Locked<'_> {
    /// Place of this inode's log; `pages_before` as for a walk from the head.
    pub(crate) fn log_place(&self) -> LogPlace {
        LogPlace {
            ino: self.ino,
            generation: self.inode.generation.load(Ordering::Relaxed),
            pages_before: 0,
            unlocked: false,
            head: None,
        }
    }
}
