//! `--limit` and `--delegates`: how the threads that use a volume share its memory.

use std::num::{NonZeroU8, NonZeroU32};
use std::sync::Arc;

use clap::Args;
use egeria_cli::failure::{Failure, Outcome};
use egeria_engine::{DelegationRule, LimitedBy, Volume};
use egeria_media::PoolIndex;

/// How many threads access the memory of a node, and which do it for others.
#[derive(Args, Clone, Copy, Debug)]
pub struct SharingArguments {
    /// Threads that may access the memory of each node at once (PATS; default: any number, or what a planner sets)
    #[arg(long, value_name = "THREADS", value_parser = parse_limit)]
    pub limit: Option<NonZeroU32>,
    /// Threads per node, in each process, that make long accesses of striped files for others (OdinFS; 0: none; default: what
    /// a planner sets)
    #[arg(long, value_name = "THREADS", value_parser = clap::value_parser!(u8).range(0..=16))]
    pub delegates: Option<u8>,
}

impl SharingArguments {
    /// Holds for all processes of the session, until it is changed.
    pub fn apply(self, volume: &Volume) -> Outcome {
        if let Some(limit) = self.limit {
            for pool in 0..volume.pools().len() {
                set_limit(volume, pool, Some(limit), LimitedBy::Hand)?;
            }
        }
        if let Some(delegates) = self.delegates {
            let rule = rule(delegates);
            volume
                .set_delegation(rule, true)
                .map_err(|errno| Failure::new(format!("cannot delegate accesses: {errno}")))?;
        }
        Ok(())
    }

    /// Applies the settings to the session until the result is dropped.
    pub fn apply_for_a_while(self, volume: &Arc<Volume>) -> Outcome<BorrowedSharing> {
        let limits = volume.admission(false).into_iter().enumerate();
        let limits = limits.map(|(pool, admission)| (admission.limit, limited_by(volume, pool)));
        let before = BorrowedSharing {
            volume: Arc::clone(volume),
            ours: self,
            limits: limits.collect(),
            delegation: volume.delegation(),
        };
        self.apply(volume)?;
        Ok(before)
    }
}

/// The former settings of a session that others use too. Dropping this restores them, unless another process has
/// changed them since.
pub struct BorrowedSharing {
    volume: Arc<Volume>,
    ours: SharingArguments,
    limits: Vec<(Option<NonZeroU32>, Option<LimitedBy>)>,
    delegation: (Option<DelegationRule>, bool),
}

impl Drop for BorrowedSharing {
    fn drop(&mut self) {
        let now = self.volume.admission(false);
        for (pool, (limit, by)) in self.limits.iter().enumerate() {
            let is_ours = now
                .get(pool)
                .is_some_and(|now| now.limit == self.ours.limit);
            if self.ours.limit.is_some() && is_ours {
                let by = by.unwrap_or(LimitedBy::Hand);
                // By hand first: a planner may not lift what was set by hand.
                let _ = set_limit(&self.volume, pool, None, LimitedBy::Hand);
                let _ = set_limit(&self.volume, pool, *limit, by);
            }
        }
        if let Some(delegates) = self.ours.delegates {
            (self.volume).give_delegation_back(rule(delegates), self.delegation);
        }
    }
}

fn limited_by(volume: &Volume, pool: usize) -> Option<LimitedBy> {
    u8::try_from(pool)
        .ok()
        .and_then(|pool| volume.limited_by(PoolIndex(pool)))
}

fn set_limit(volume: &Volume, pool: usize, limit: Option<NonZeroU32>, by: LimitedBy) -> Outcome {
    let limited = volume.limit_admission(PoolIndex(pool as u8), limit, by);
    limited.map_err(|errno| Failure::new(format!("cannot limit pool {pool}: {errno}")))
}

fn rule(delegates: u8) -> Option<DelegationRule> {
    let sizes = egeria_policy::planner::Delegation::default();
    let bytes = |bytes: u64| u32::try_from(bytes).unwrap_or(u32::MAX);
    NonZeroU8::new(delegates).map(|delegates| DelegationRule {
        delegates,
        min_read_bytes: bytes(sizes.min_read_bytes),
        min_write_bytes: bytes(sizes.min_write_bytes),
        always: false,
    })
}

fn parse_limit(text: &str) -> Result<NonZeroU32, String> {
    text.parse().map_err(|_| {
        format!("{text:?} is no number of threads; write 1 or more, or leave --limit out")
    })
}
