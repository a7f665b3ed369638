//! Writing back pages that programs changed through mappings, also on a full volume. The program may be gone, so data
//! for mapped blocks must not be lost.
//!
//! 1. While there is space: as every other write.
//! 2. Then block by block, from a part of the reserve: each takes one block and frees one.
//! 3. When the reserve is used up, in place, for files without checksums. A crash may leave a part of such a page, as
//!    of every page stored through a mapping; the time of the change may be lost then.

use crate::data::Writing;
use crate::data::write::Target;
use crate::data::write_rules::WriteRules;
use crate::format::*;
use crate::session::access::{Access, Run};
use crate::session::inode::Locked;
use crate::session::seqlock::WriteSection;
use crate::session::volume::FileReference;
use crate::session::{Snapshots, Stamps};
use crate::types::*;
use std::sync::atomic::Ordering;

impl Writing<'_> {
    /// A part of one block.
    pub(super) fn write_back_part(
        self,
        file: FileReference,
        offset: u64,
        part: &[u8],
    ) -> Outcome<()> {
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

    fn write_where_it_lies(self, file: FileReference, offset: u64, part: &[u8]) -> Outcome<()> {
        let locked = self.volume.lock(file.ino.0)?.regular()?;
        let word = locked.index().load(offset / BLOCK as u64);
        let is_shared = Snapshots::of(self.volume).keeps_freed_blocks();
        let is_below_end = offset + part.len() as u64 <= locked.size_bytes();
        if !word.has_data() || locked.has_sums() || is_shared || !is_below_end {
            return Err(Errno(libc::ENOSPC));
        }
        let run = Run {
            pool: word.pool(),
            at: word.block().offset() + offset % BLOCK as u64,
            bytes: part.len(),
        };
        Access::upkeep(self.volume, run, |pool| {
            pool.copy_in(run.at, part.into()).map_err(Errno::from)?;
            // Durable before it is reported as written.
            pool.fence();
            Ok(())
        })?;
        self.note_change(&locked);
        Ok(())
    }

    /// Show that the content changed, also to users of [`Volume::change_number`].
    fn note_change(self, locked: &Locked<'_>) {
        let changing = WriteSection::begin(locked.inode);
        let time_ns = Stamps::of(self.volume).stamp_ns(locked.inode) as u64;
        locked.inode.mtime_ns.store(time_ns, Ordering::Relaxed);
        locked.inode.ctime_ns.store(time_ns, Ordering::Relaxed);
        changing.end();
    }
}
