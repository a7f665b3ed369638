//! Which pool is whose: of CPUs, of declared nodes, of the thread that writes.

use crate::format::{MAX_POOLS, Superblock};
use crate::pools::failure;
use crate::requests::{AttachOptions, VolumeError};
use crate::session::map::Session;
use crate::slots::Me;
use crate::volume::Volume;
use std::sync::atomic::Ordering;

/// Note which pool is whose: of declared nodes by position, of CPUs by the machine found.
pub(crate) fn place_nodes(
    session: &Session,
    superblock: &Superblock,
    options: &AttachOptions,
) -> Result<(), VolumeError> {
    let header = session.header();
    let machine = match &options.machine {
        Some(machine) => machine.clone(),
        // A machine that cannot be read is treated as one node: slower, not wrong.
        None => match egeria_machine::Machine::detect() {
            Ok(machine) => machine,
            Err(_) => return Ok(()),
        },
    };
    let pool_of = |node: u16| superblock.pools.iter().position(|pool| pool.node == node);
    for (position, node) in machine.nodes.iter().enumerate() {
        let near = |other: &usize| {
            machine
                .distances
                .get(position)
                .and_then(|line| line.get(*other))
                .copied()
                .unwrap_or(u32::MAX)
        };
        let nearest = || {
            (0..machine.nodes.len())
                .filter(|other| pool_of(machine.nodes[*other].id.0).is_some())
                .min_by_key(near)
        };
        let pool = pool_of(node.id.0)
            .or_else(|| nearest().and_then(|other| pool_of(machine.nodes[other].id.0)))
            .unwrap_or(0);
        if let Some(word) = header.pool_of_node.get(position) {
            word.store(pool as u32, Ordering::Relaxed);
        }
        for cpu in &node.cpus {
            if let Some(word) = header.pool_of_cpu.get(cpu.0 as usize) {
                word.store(pool as u8, Ordering::Relaxed);
            }
        }
        for (index, pool) in superblock.pools.iter().enumerate() {
            if pool.node == node.id.0 {
                header.node_of_pool[index].store(position as u32, Ordering::Relaxed);
            }
        }
    }
    if machine.is_emulated() {
        session
            .emulation()
            .configure(&machine)
            .map_err(|error| failure(libc::EINVAL, error.to_string()))?;
        header.declared_nodes.store(1, Ordering::Release);
    }
    Ok(())
}

impl Volume {
    /// Index of the pool of the node the thread runs on.
    #[inline]
    pub(crate) fn pool_here(&self, me: Me<'_>) -> usize {
        let header = self.session.header();
        if self.media.len() == 1 {
            return 0;
        }
        let pool = if self.emulated {
            let node = self.session.emulation().node_of_thread(&me.slot.emulated);
            header.pool_of_node[node % header.pool_of_node.len()].load(Ordering::Relaxed)
        } else {
            // SAFETY: no arguments; a failure is -1.
            let cpu = unsafe { libc::sched_getcpu() }.max(0) as usize;
            header.pool_of_cpu[cpu % header.pool_of_cpu.len()].load(Ordering::Relaxed) as u32
        };
        (pool as usize).min(self.media.len() - 1)
    }

    /// Index of the pool for new data (spec: write placement, baselines).
    pub(crate) fn pool_for_data(&self, me: Me<'_>) -> usize {
        match self.session.header().allocation.load(Ordering::Relaxed) {
            0 => self.pool_here(me),
            1 => self.random_pool(me),
            pool => (pool.saturating_sub(16) as usize).min(self.media.len() - 1),
        }
    }

    fn random_pool(&self, me: Me<'_>) -> usize {
        // A Weyl sequence per thread: cheap, and even over the pools.
        let random = &me.slot.random;
        let next = random
            .load(Ordering::Relaxed)
            .wrapping_add(0x9E37_79B9_7F4A_7C15);
        random.store(next, Ordering::Relaxed);
        let mixed = (next ^ (next >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        ((mixed >> 40) as usize) % self.media.len()
    }

    /// Index of a pool's node in the emulated machine.
    pub(crate) fn node_index(&self, pool: u8) -> usize {
        self.session.header().node_of_pool[pool as usize & (MAX_POOLS - 1)].load(Ordering::Relaxed)
            as usize
    }
}
