//! Whether long accesses are delegated (OdinFS), and from which length on.

use egeria_facts::{MediumFacts, Window};
use egeria_machine::Machine;

use super::decision::{DelegatedBecause, DelegationPlan, DirectBecause, Limit};
use super::settings::Delegation;
use crate::Plan;
use crate::media::bears;

/// What is remembered between windows: how long ago delegation was last wanted.
#[derive(Clone, Debug, Default)]
pub(super) struct Delegates {
    rests: Option<u32>,
}

/// The inputs of the decision.
pub(super) struct Scene<'a> {
    pub(super) machine: &'a Machine,
    pub(super) media: &'a [MediumFacts],
    /// Of each node that has one.
    pub(super) limits: &'a [Limit],
    /// Share of the bytes of file I/O that go to other nodes once threads have moved.
    pub(super) remote_share: f64,
}

impl Scene<'_> {
    /// Whether no file is striped. A trial of delegation would then bring nothing, and would keep threads in place.
    fn has_nothing_to_delegate(&self) -> bool {
        let is_plain = |facts: &MediumFacts| facts.striped_files == Some(false);
        !self.media.is_empty() && self.media.iter().all(is_plain)
    }
}

impl Delegates {
    /// The plan for the next window.
    pub(super) fn next(&mut self, scene: &Scene<'_>, settings: &Delegation) -> DelegationPlan {
        if settings.always {
            return on(settings, DelegatedBecause::Always);
        }
        if scene.has_nothing_to_delegate() {
            self.rests = None;
            return DelegationPlan::Off {
                because: DirectBecause::NothingStriped,
            };
        }
        match wanted(scene, settings) {
            Ok(because) => {
                self.rests = Some(0);
                on(settings, because)
            }
            Err(because) => {
                let windows = self.rests.map(|windows| windows.saturating_add(1));
                self.rests = windows.filter(|windows| *windows < settings.rest_windows);
                match self.rests {
                    Some(windows) => on(settings, DelegatedBecause::Rests { windows }),
                    None => DelegationPlan::Off { because },
                }
            }
        }
    }
}

/// Delegation only because accesses are long: several nodes then work at the same time. It is to be tried, and kept
/// only if it pays.
pub(super) fn long_accesses(
    media: &[MediumFacts],
    settings: &Delegation,
) -> Option<DelegationPlan> {
    let is_long = |facts: &&MediumFacts| {
        let mean_bytes = facts.measured.mix.mean_bytes;
        facts.measured.demand > 0 && mean_bytes >= settings.min_read_bytes as f64
    };
    let facts = media.iter().find(is_long)?;
    let (node, mean_bytes) = (facts.node, facts.measured.mix.mean_bytes);
    Some(on(settings, DelegatedBecause::Long { node, mean_bytes }))
}

/// Delegation bounds how many threads are at a medium and makes their accesses local (OdinFS slides, "PM cannot handle
/// arbitrary concurrent accesses", "Remote PM access degrades severely"): it is wanted where one of the two is needed.
fn wanted(scene: &Scene<'_>, settings: &Delegation) -> Result<DelegatedBecause, DirectBecause> {
    let mut fullest: Option<(u32, u32, &MediumFacts)> = None;
    for facts in scene.media {
        let Some(index) = scene.machine.index_of(facts.node) else {
            continue;
        };
        let limit = scene.limits.iter().find(|limit| limit.node == facts.node);
        let bears = limit
            .map(|limit| limit.threads)
            .or_else(|| bears(scene.machine, index, facts.measured.mix.write_share));
        let (demand, bears) = (facts.measured.demand, bears.unwrap_or(u32::MAX).max(1));
        let is_fuller = |other: &(u32, u32, &MediumFacts)| {
            u64::from(demand) * u64::from(other.1) > u64::from(other.0) * u64::from(bears)
        };
        if fullest.as_ref().is_none_or(is_fuller) {
            fullest = Some((demand, bears, facts));
        }
    }
    let (demand, bears, facts) = fullest.ok_or(DirectBecause::NoMedium)?;
    let (node, remote_share) = (facts.node, scene.remote_share);
    if demand > bears {
        Ok(DelegatedBecause::Crowded {
            node,
            demand,
            bears,
        })
    } else if remote_share >= settings.remote_limit && remote_share > 0.0 {
        let limit = settings.remote_limit;
        Ok(DelegatedBecause::Remote {
            remote_share,
            limit,
        })
    } else {
        Err(DirectBecause::Quiet {
            node,
            demand,
            bears,
            remote_share,
        })
    }
}

fn on(settings: &Delegation, because: DelegatedBecause) -> DelegationPlan {
    DelegationPlan::On {
        stripe_bytes: settings.stripe_bytes,
        min_read_bytes: settings.min_read_bytes,
        min_write_bytes: settings.min_write_bytes,
        delegates_per_node: settings.delegates_per_node,
        because,
    }
}

/// Share of the bytes of file I/O that go to other nodes, with threads where the plan puts them and their writes
/// local; 0 without any.
pub(super) fn remote_share(machine: &Machine, window: &Window, plan: &Plan) -> f64 {
    let (mut remote, mut all) = (0.0, 0.0);
    for facts in &window.threads {
        let node = plan.move_of(facts.key).map_or(facts.node, |step| step.to);
        let (read, total) = (facts.read_total() as f64, facts.moved_total() as f64);
        let here = machine.index_of(node);
        let here = here.and_then(|index| facts.read_bytes.get(index));
        remote += read - here.copied().unwrap_or_default() as f64;
        all += total;
    }
    if all > 0.0 { remote / all } else { 0.0 }
}
