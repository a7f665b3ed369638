//! Reading data of an inode that another thread changes all the time, or that a stopped thread has locked.

use crate::data::Reading;
use crate::data::read::copy_run;
use crate::format::*;
use crate::log::Log;
use crate::log::committed::CommittedBlocks;
use crate::session::access::Access;
use crate::session::patience::{self, LOOKING_PATIENCE};
use crate::session::slots::Me;
use crate::session::volume::FileReference;
use crate::types::*;
use egeria_media::CallerDestination;
use egeria_media::emulation::AccessKind;

impl Reading<'_> {
    /// Read under the lock, or from the log if the lock is not free soon.
    #[cold]
    pub(crate) fn read_patiently(
        self,
        me: Me<'_>,
        file: FileReference,
        offset: u64,
        to: CallerDestination<'_>,
    ) -> Outcome<usize> {
        loop {
            let locked = patience::within(LOOKING_PATIENCE, || self.read_locked(file, offset, to));
            if let Ok(outcome) = locked {
                return outcome;
            }
            if self.has_sums(file)? {
                return self.read_with_sums(file, offset, to);
            }
            let copied = Log::of(self.volume).with_committed_blocks(file.ino.0, |blocks| {
                let mut access = Access::again(self.volume, me, AccessKind::Read);
                let bytes = copy_committed(&mut access, blocks, offset, to)?;
                Ok((bytes, access))
            });
            match copied {
                Err(Errno(libc::EAGAIN)) => {}
                copied => {
                    let (bytes, access) = copied?;
                    access.end();
                    return Ok(bytes);
                }
            }
        }
    }
}

/// Copy a range as described by a log.
fn copy_committed(
    access: &mut Access<'_>,
    blocks: &CommittedBlocks,
    offset: u64,
    to: CallerDestination<'_>,
) -> Outcome<usize> {
    let left = blocks.size_bytes.saturating_sub(offset);
    let to = to.first(usize::try_from(left).unwrap_or(usize::MAX));
    let mut done = 0;
    while done < to.bytes() {
        let at = offset + done as u64;
        let within = at % BLOCK as u64;
        let (word, count) = blocks.run_at(at / BLOCK as u64);
        let there = count.saturating_mul(BLOCK as u64) - within;
        let run = to
            .after(done)
            .first(usize::try_from(there).unwrap_or(usize::MAX));
        copy_run(access, word, within, run)?;
        done += run.bytes();
    }
    Ok(to.bytes())
}
