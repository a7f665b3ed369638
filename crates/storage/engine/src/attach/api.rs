//! What callers ask: attaching and leaving.

use crate::attach::attach_volume::{
    ATTACHED_HERE, assemble, attach_patiently, fill_header, layout_of, no_pool,
};
use crate::attach::pools::find_pools;
use crate::attach::private::{HASH_SEED, PrivateMemory, agreed_superblock, found_of};
use crate::requests::*;
use crate::session::map::Session;
use crate::session::volume::{Origin, Volume};
use crate::session::{lock, robust_list};
use crate::space::placement::place_nodes;
use egeria_media::Pool;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

impl Volume {
    /// Attach by any pool's path. A second attach in one process gives the same `Volume`, unless one of
    /// them is [`AttachMode::ReadOnly`] and the other is not.
    ///
    /// A failing medium gives `EIO` ([`AttachOptions::faults`]).
    ///
    /// # Errors
    /// `ENOENT` when no process has it attached ([`AttachMode::Join`]) or there is no pool; `EAGAIN` while it is being
    /// recovered; `EBUSY` while others or a copy use it; `EPERM` when pools or session are accessible to other users;
    /// `EPROTO` for a session of another build; `ENOMEM`; `ENOSPC`; `EINVAL` when it is no volume or the machine
    /// cannot be emulated; `EIO` for damage; errors of the system for a pool.
    pub fn attach(
        pool: &Path,
        mode: AttachMode,
        options: &AttachOptions,
    ) -> Result<Arc<Volume>, VolumeError> {
        options.faults.prepare()?;
        lock::prepare();
        robust_list::prepare();
        let found = find_pools(pool)?;
        let mut here = ATTACHED_HERE.lock().map_err(|_| {
            failure(
                libc::EIO,
                "a thread died while attaching; restart the program",
            )
        })?;
        here.retain(|volume| volume.strong_count() > 0);
        let same = here.iter().filter_map(Weak::upgrade).find(|volume| {
            volume.superblock().volume == found.superblock.volume
                && volume.identity == found.identity
                && volume.read_only == (mode == AttachMode::ReadOnly)
                && volume.origin != Origin::Private
        });
        if let Some(volume) = same {
            return Ok(volume);
        }
        let volume = attach_patiently(pool, found, mode, options)?;
        here.push(Arc::downgrade(&volume));
        Ok(volume)
    }

    /// Detach cleanly: the last process of the session removes it. Dropping does this too.
    pub fn detach(self: Arc<Self>) {
        self.thread_exit();
    }

    /// Recover and attach the volume on these pools, given in order. Unless a machine is declared, all CPUs
    /// belong to the node of pool 0.
    ///
    /// # Errors
    /// `EINVAL` when these are no pools of one volume, `ENOMEM` without memory for a session, `EIO` when it cannot be
    /// recovered.
    pub fn attach_private(
        pools: &[Arc<Pool>],
        memory: &mut PrivateMemory,
        options: &AttachOptions,
    ) -> Result<Arc<Volume>, VolumeError> {
        lock::prepare();
        robust_list::prepare();
        let superblock = agreed_superblock(pools)?;
        let known = pools.iter().zip(&superblock.pools);
        let pools: Vec<Arc<Pool>> = known
            .map(|(pool, sibling)| match sibling.removed {
                None => Arc::clone(pool),
                Some(_) => Arc::new(no_pool()),
            })
            .collect();
        let geometry = superblock.geometry();
        let layout = layout_of(&geometry);
        let memory = memory.take(layout.bytes).map_err(|error| {
            let message = format!("no memory for a session: {error}; free some");
            failure(libc::ENOMEM, message)
        })?;
        let session = Session::over(PathBuf::new(), layout, memory);
        fill_header(&session, &superblock, &[0; 16], HASH_SEED);
        if options.machine.is_some() {
            place_nodes(&session, &superblock, options)?;
        }
        let found = found_of(superblock, &pools);
        let volume = assemble(found, pools, geometry, session, false, Origin::Private);
        volume.recover(options, false)?;
        Ok(volume)
    }

    /// Another attachment of a private session, as from another process.
    pub fn join_private(&self) -> Arc<Volume> {
        let found = found_of(self.superblock().clone(), &self.media);
        let (media, geometry) = (self.media.to_vec(), self.geometry.to_vec());
        let session = self.session.share();
        assemble(found, media, geometry, session, false, Origin::Private)
    }

    /// From now on the clock starts at this time and advances one nanosecond per read.
    pub fn set_clock(&self, clock_ns: i64) {
        self.clock_ns.store(clock_ns, Ordering::Relaxed);
    }

    /// From now on every CPU belongs to the node of this pool, in the whole session.
    pub fn set_home_pool(&self, pool: u8) {
        for word in &self.session.header().pool_of_cpu {
            word.store(pool, Ordering::Relaxed);
        }
    }
}
