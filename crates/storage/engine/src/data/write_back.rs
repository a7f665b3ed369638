//! Writing back pages that programs changed through mappings, also on a full volume. The program may be gone, so data
//! for mapped blocks must not be lost.
//!
//! 1. While there is space: as every other write.
//! 2. Then block by block, from a part of the reserve: each takes one block and frees one.
//! 3. When the reserve is used up, in place, for files without checksums. A crash may leave a part of such a page, as
//!    of every page stored through a mapping; the time of the change may be lost then.

use crate::data::write::Target;
use crate::data::write_rules::WriteRules;
use crate::format::*;
use crate::session::access::{Access, Run};
use crate::session::inode::Locked;
use crate::session::patience;
use crate::session::seqlock::WriteSection;
use crate::session::volume::{FileReference, Volume};
use crate::types::*;
use std::sync::atomic::Ordering;

impl Volume {
    /// Write the pages that a kernel sends. Pages that cannot be written (holes on a full volume) do not prevent
    /// writing the rest.
    ///
    /// # Errors
    /// The first of the errors of `write_from`.
    pub fn write_back(&self, file: FileReference, offset_bytes: u64, data: &[u8]) -> Outcome<()> {
        let rules = WriteRules::default();
        let written = self.write_with_rules(file, Target::At(offset_bytes), data.into(), rules);
        let mut done = match written {
            Ok((_, written)) => written,
            Err(errno) if patience::is_expiry(errno) => return Err(errno),
            Err(_) => 0,
        };
        let mut outcome = Ok(());
        // Block by block: one block may fail where the next one succeeds.
        while done < data.len() {
            let offset = offset_bytes + done as u64;
            let rest = &data[done..];
            let part = &rest[..rest.len().min(BLOCK - (offset % BLOCK as u64) as usize)];
            match self.write_back_part(file, offset, part) {
                Err(errno) if patience::is_expiry(errno) => return Err(errno),
                part => outcome = outcome.and(part),
            }
            done += part.len();
        }
        outcome
    }

    /// A part of one block.
    fn write_back_part(&self, file: FileReference, offset: u64, part: &[u8]) -> Outcome<()> {
        let rules = WriteRules {
            replaces: true,
            ..WriteRules::default()
        };
        match self.write_with_rules(file, Target::At(offset), part.into(), rules) {
            Ok((_, written)) if written == part.len() => Ok(()),
            Ok(_) => Err(Errno(libc::EIO)),
            Err(Errno(libc::ENOSPC)) => self.write_where_it_lies(file, offset, part),
            Err(errno) => Err(errno),
        }
    }

    fn write_where_it_lies(&self, file: FileReference, offset: u64, part: &[u8]) -> Outcome<()> {
        let locked = self.lock(file.ino.0)?.regular()?;
        let word = locked.index().load(offset / BLOCK as u64);
        let is_shared = self.session.header().shared_blocks.load(Ordering::Relaxed) != 0;
        let is_below_end = offset + part.len() as u64 <= locked.size_bytes();
        if !word.has_data() || locked.has_sums() || is_shared || !is_below_end {
            return Err(Errno(libc::ENOSPC));
        }
        let run = Run {
            pool: word.pool(),
            at: word.block().offset() + offset % BLOCK as u64,
            bytes: part.len(),
        };
        Access::upkeep(self, run, |pool| {
            pool.copy_in(run.at, part.into()).map_err(Errno::from)?;
            // Durable before it is reported as written.
            pool.fence();
            Ok(())
        })?;
        self.note_change(&locked);
        Ok(())
    }

    /// Show that the content changed, also to users of [`Volume::change_number`].
    fn note_change(&self, locked: &Locked<'_>) {
        let changing = WriteSection::begin(locked.inode);
        let time_ns = self.stamp_ns(locked.inode) as u64;
        locked.inode.mtime_ns.store(time_ns, Ordering::Relaxed);
        locked.inode.ctime_ns.store(time_ns, Ordering::Relaxed);
        changing.end();
    }
}
