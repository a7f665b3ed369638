//! Assignment of pools: to CPUs, to declared nodes, to the writing thread.

use crate::format::{LayoutWord, Sibling, Superblock};
use crate::requests::failure;
use crate::requests::{AttachOptions, VolumeError};
use crate::session::layout::{MAX_STRIPE_TURNS, STRIPED_ALLOCATION, SessionInode};
use crate::session::map::Session;
use crate::session::path_mode::PathMode;
use crate::session::slots::Me;
use crate::session::volume::Volume;
use crate::space::Placing;
use crate::space::striping::{self, Stripes};
use egeria_machine::{Machine, NodeId};
use std::sync::atomic::Ordering;

/// Note the pool of each declared node by position, and the pool of each CPU by the machine found.
pub(crate) fn place_nodes(
    session: &Session,
    superblock: &Superblock,
    options: &AttachOptions,
) -> Result<(), VolumeError> {
    let machine = match &options.machine {
        Some(machine) => machine.clone(),
        // If the machine cannot be read, it is treated as one node: slower, but correct.
        None => match Machine::detect() {
            Ok(machine) => machine,
            Err(_) => return Ok(()),
        },
    };
    note_pools(session, superblock, &machine);
    if machine.is_emulated() {
        emulate(session, superblock, &machine, options)?;
        let mode = PathMode::EMULATED.0;
        session.header().path_mode.fetch_or(mode, Ordering::Release);
    }
    Ok(())
}

/// Pools that take new data, by index.
fn pools_in_use<'s>(
    session: &Session,
    superblock: &'s Superblock,
) -> impl Iterator<Item = (usize, &'s Sibling)> {
    let retired = session.header().retired_pools.load(Ordering::Relaxed);
    let pools = superblock.pools.iter().enumerate();
    pools.filter(move |(index, pool)| pool.removed.is_none() && retired >> index & 1 == 0)
}

/// Note the pool of each node and CPU, and the order of stripes: of the pools that take new data.
fn note_pools(session: &Session, superblock: &Superblock, machine: &Machine) {
    let header = session.header();
    let pool_of = |node: u16| {
        let mut pools = pools_in_use(session, superblock);
        pools
            .find(|(_, pool)| pool.node == node)
            .map(|found| found.0)
    };
    let any = pools_in_use(session, superblock).next();
    let any = any.map_or(0, |(index, _)| index);
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
            .unwrap_or(any);
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
    note_stripe_turns(session, superblock, machine);
}

impl Volume {
    /// Have no more new data go to a pool, or have it go there again; for all processes of the session.
    pub(crate) fn retire_pool(&self, pool: usize, is_retired: bool) {
        let (word, bit) = (&self.session.header().retired_pools, 1 << pool);
        if is_retired {
            word.fetch_or(bit, Ordering::AcqRel);
        } else {
            word.fetch_and(!bit, Ordering::AcqRel);
        }
        self.note_pools_again();
    }

    /// Note which pool each node and CPU uses, after the pools have changed.
    pub(crate) fn note_pools_again(&self) {
        let declared = self.declared_machine();
        match declared.map_or_else(Machine::detect, Ok) {
            Ok(machine) => note_pools(&self.session, self.superblock(), &machine),
            // As when it was attached: one node.
            Err(_) => note_pools_of_one_node(&self.session, self.superblock()),
        }
    }

    /// Whether a pool takes no new data.
    #[inline]
    pub(crate) fn is_retired(&self, pool: usize) -> bool {
        self.session.header().retired_pools.load(Ordering::Relaxed) >> pool & 1 == 1
    }
}

/// Without a machine, all CPUs belong to the first pool that takes data.
fn note_pools_of_one_node(session: &Session, superblock: &Superblock) {
    let header = session.header();
    let first = pools_in_use(session, superblock).next();
    let first = first.map_or(0, |(index, _)| index);
    for word in &header.pool_of_cpu {
        word.store(first as u8, Ordering::Relaxed);
    }
}

/// Note how often each pool gets a stripe: by what the memory of its node gives, if that is known of all.
fn note_stripe_turns(session: &Session, superblock: &Superblock, machine: &Machine) {
    let header = session.header();
    let pools: Vec<(usize, u16)> = pools_in_use(session, superblock)
        .map(|(index, pool)| (index, pool.node))
        .collect();
    let bandwidth = |node: u16| {
        let on_node = pools.iter().filter(|pool| pool.1 == node);
        let position = machine.index_of(NodeId(node))?;
        let bytes_s = machine.file_medium(position)?.read.bytes_s;
        Some(bytes_s / on_node.count().max(1) as f64)
    };
    let bandwidths: Option<Vec<f64>> = pools.iter().map(|pool| bandwidth(pool.1)).collect();
    let mut turns = striping::turns_of(&bandwidths.unwrap_or_default(), MAX_STRIPE_TURNS);
    if turns.is_empty() && pools.len() < superblock.pools.len() {
        turns = (0..pools.len() as u8).collect();
    }
    for (word, turn) in header.stripe_turns.iter().zip(&turns) {
        let (pool, _) = pools[usize::from(*turn)];
        word.store(pool as u8, Ordering::Relaxed);
    }
    let count = turns.len().min(MAX_STRIPE_TURNS) as u32;
    header.stripe_turn_count.store(count, Ordering::Relaxed);
}

/// Begin to emulate the machine, and note which of its memories each pool lies on.
fn emulate(
    session: &Session,
    superblock: &Superblock,
    machine: &Machine,
    options: &AttachOptions,
) -> Result<(), VolumeError> {
    let shared_as = options.share_machine.as_deref();
    session.emulate(machine, shared_as).map_err(|error| {
        let errno = error.raw_os_error().unwrap_or(libc::EINVAL);
        failure(errno, error.to_string())
    })?;
    for (index, pool) in pools_in_use(session, superblock) {
        let node = session.header().node_of_pool[index].load(Ordering::Relaxed) as usize;
        let place = session.emulation().place_of(node, options.memory);
        let place = place.ok_or_else(|| {
            let kind = options.memory.map_or("", egeria_machine::MemoryKind::name);
            let message = format!(
                "node {} of machine {} has no {kind} memory for pool {index}; leave --memory out, or name another kind or machine",
                pool.node, machine.name
            );
            failure(libc::EINVAL, message)
        })?;
        session.header().memory_of_pool[index].store(place as u32, Ordering::Relaxed);
    }
    Ok(())
}

/// Where new data of one operation goes.
#[derive(Clone, Copy)]
pub(crate) enum Placement<'a> {
    /// All of it to the pool with this index.
    Pool(usize),
    /// In stripes over all pools.
    Striped(Stripes<'a>),
}

impl Placement<'_> {
    /// Index of the pool for a block of a file.
    #[inline(always)]
    pub(crate) fn pool_for(self, ino: u64, file_block: u64) -> usize {
        match self {
            Placement::Pool(pool) => pool,
            Placement::Striped(stripes) => stripes.pool_of(ino, file_block),
        }
    }

    /// Index of the pool for a block of a file, and how many blocks from there on, below `end`, go to it.
    #[inline(always)]
    pub(crate) fn run_for(self, ino: u64, file_block: u64, end: u64) -> (usize, u64) {
        match self {
            Placement::Pool(pool) => (pool, end - file_block),
            Placement::Striped(stripes) => {
                let count = stripes.end_of_stripe(file_block).min(end) - file_block;
                (stripes.pool_of(ino, file_block), count)
            }
        }
    }
}

impl<'a> Placing<'a> {
    /// Where new data of a file goes: by its layout, else by the session's policy.
    #[inline]
    pub(crate) fn placement(self, me: Me<'_>, inode: &SessionInode) -> Placement<'a> {
        let layout = LayoutWord(inode.layout.load(Ordering::Relaxed));
        match layout.stripe_blocks() {
            Some(blocks) => Placement::Striped(self.stripes(blocks)),
            None if layout == LayoutWord::LOCAL => Placement::Pool(self.volume.pool_of_writer(me)),
            None => match self
                .volume
                .session
                .header()
                .allocation
                .load(Ordering::Relaxed)
            {
                STRIPED_ALLOCATION => {
                    Placement::Striped(self.stripes(striping::DEFAULT_STRIPE_BLOCKS))
                }
                word => Placement::Pool(self.pool_by_policy(me, word)),
            },
        }
    }

    /// Index of the pool for a block of a file; `here`: that of the writer's node.
    #[inline(always)]
    pub(crate) fn pool_for_block(
        self,
        me: Me<'_>,
        (ino, inode): (u64, &SessionInode),
        file_block: u64,
        here: usize,
    ) -> usize {
        let layout = LayoutWord(inode.layout.load(Ordering::Relaxed));
        let allocation = &self.volume.session.header().allocation;
        if layout == LayoutWord::UNSET && allocation.load(Ordering::Relaxed) == 0 {
            return here;
        }
        self.placement(me, inode).pool_for(ino, file_block)
    }

    /// Index of the pool for a new inode and its metadata (spec: write placement, baselines).
    pub(crate) fn pool_for_new_inode(self, me: Me<'_>) -> usize {
        self.pool_by_policy(
            me,
            self.volume
                .session
                .header()
                .allocation
                .load(Ordering::Relaxed),
        )
    }

    #[inline]
    fn pool_by_policy(self, me: Me<'_>, word: u64) -> usize {
        match word {
            0 | STRIPED_ALLOCATION => self.volume.pool_of_writer(me),
            1 => self.random_pool(me),
            pool => {
                let pool = (pool.saturating_sub(16) as usize).min(self.volume.media.len() - 1);
                self.unless_retired(me, pool)
            }
        }
    }

    #[inline]
    fn stripes(self, blocks: u32) -> Stripes<'a> {
        let header = self.volume.session.header();
        let count = header.stripe_turn_count.load(Ordering::Relaxed) as usize;
        Stripes {
            blocks: blocks.into(),
            pools: self.volume.media.len() as u64,
            turns: &header.stripe_turns[..count.min(MAX_STRIPE_TURNS)],
        }
    }

    fn random_pool(self, me: Me<'_>) -> usize {
        // A Weyl sequence per thread: cheap, and evenly distributed over the pools.
        let random = &me.slot.random;
        let next = random
            .load(Ordering::Relaxed)
            .wrapping_add(0x9E37_79B9_7F4A_7C15);
        random.store(next, Ordering::Relaxed);
        let mixed = (next ^ (next >> 32)).wrapping_mul(0xD6E8_FEB8_6659_FD93);
        let pool = ((mixed >> 40) as usize) % self.volume.media.len();
        self.unless_retired(me, pool)
    }

    fn unless_retired(self, me: Me<'_>, pool: usize) -> usize {
        if self.volume.is_retired(pool) {
            self.volume.pool_here(me)
        } else {
            pool
        }
    }
}
