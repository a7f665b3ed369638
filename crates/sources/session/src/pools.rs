//! From counters of pools to counters of nodes.

use egeria_engine::Volume;
use egeria_engine::format::MAX_POOLS;
use egeria_facts::ThreadFacts;

/// Bytes read and written, by pool.
pub(crate) type PoolBytes<'a> = [&'a [u64; MAX_POOLS]; 2];

/// Adds to a thread's facts what went through each pool since before, at the pool's node.
pub(crate) fn add_since(
    facts: &mut ThreadFacts,
    volume: &Volume,
    now: PoolBytes<'_>,
    before: PoolBytes<'_>,
) {
    let sums = [&mut facts.read_bytes, &mut facts.written_bytes];
    for (sums, (now, before)) in sums.into_iter().zip(now.into_iter().zip(before)) {
        for pool in 0..volume.pool_nodes().len().min(MAX_POOLS) {
            if let Some(sum) = sums.get_mut(volume.node_position(pool)) {
                *sum = sum.saturating_add(now[pool].saturating_sub(before[pool]));
            }
        }
    }
}
