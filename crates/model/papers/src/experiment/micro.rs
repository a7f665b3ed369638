//! Single operations, without contention.

use egeria_machine::AccessKind;

use super::stage::{Stage, profile};
use crate::error::{Result, shipped};
use crate::results::Results;

/// A page of NThread §III-C1.
const PAGE_BYTES: u64 = 16 << 10;
const NS_PER_US: f64 = 1e3;

/// Moving 16 KB from one node's persistent memory to the other's: a thread reads here and writes there, or the
/// other way; the mean of the two. What a file system computes for it is not known, and left out.
pub(super) fn migration(_stage: &Stage, results: &mut Results) -> Result<()> {
    let machine = profile("optane-2s")?;
    let nodes = machine.emulated.as_ref().map(|emulated| &emulated.nodes);
    let node = nodes
        .and_then(|nodes| nodes.first())
        .ok_or_else(|| shipped("optane-2s", "it has no emulated nodes"))?;
    let of = |kind, remote| node.undisturbed_ns(PAGE_BYTES, kind, remote, 1);
    let pushed_ns = of(AccessKind::Read, false) + of(AccessKind::Write, true);
    let pulled_ns = of(AccessKind::Read, true) + of(AccessKind::Write, false);
    let mean_us = (pushed_ns + pulled_ns) / 2.0 / NS_PER_US;
    results.set("micro", "16 KB", "migration_us", mean_us);
    Ok(())
}
