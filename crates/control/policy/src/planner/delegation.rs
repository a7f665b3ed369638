//! Whether long accesses are delegated (OdinFS), and from which length on.

use egeria_facts::{MediumFacts, Window};
use egeria_machine::{AccessKind, Machine, Medium, NEARLY_ALL};

use super::decision::{DelegatedBecause, DelegationPlan, DirectBecause, Limit};
use super::settings::Delegation;
use crate::Plan;
use crate::media::bears;

/// Most delegates of a node: the engine starts no more.
pub const MOST_DELEGATES: u32 = 16;
/// The number of delegates stays while it gives this share of the most bandwidth: the mix of reads and writes changes
/// from window to window.
const STILL_GOOD: f64 = 0.9;

/// What is remembered between windows.
#[derive(Clone, Debug, Default)]
pub(super) struct Delegates {
    /// How long ago delegation was last wanted.
    rests: Option<u32>,
    /// Delegates of each node, as found by the media's curves.
    count: Option<u32>,
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
        let mut nodes = scene.machine.nodes.iter();
        if !nodes.any(|node| scene.machine.has_bounded_medium(node)) {
            return DelegationPlan::Off {
                because: DirectBecause::NoMedium,
            };
        }
        if settings.always {
            return self.on(scene, settings, DelegatedBecause::Always);
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
                self.on(scene, settings, because)
            }
            Err(because) => {
                let windows = self.rests.map(|windows| windows.saturating_add(1));
                self.rests = windows.filter(|windows| *windows < settings.rest_windows);
                match self.rests {
                    Some(windows) => {
                        let because = DelegatedBecause::Rests { windows };
                        self.on(scene, settings, because)
                    }
                    None => DelegationPlan::Off { because },
                }
            }
        }
    }

    /// Delegation only because accesses are long: several nodes then work at the same time. It is to be tried, and kept
    /// only if it pays.
    pub(super) fn long_accesses(
        &mut self,
        scene: &Scene<'_>,
        settings: &Delegation,
    ) -> Option<DelegationPlan> {
        let is_long = |facts: &&MediumFacts| {
            let mean_bytes = facts.measured.mix.mean_bytes;
            facts.measured.demand > 0 && mean_bytes >= settings.min_read_bytes as f64
        };
        let facts = scene.media.iter().find(is_long)?;
        let (node, mean_bytes) = (facts.node, facts.measured.mix.mean_bytes);
        let because = DelegatedBecause::Long { node, mean_bytes };
        Some(self.on(scene, settings, because))
    }

    fn on(
        &mut self,
        scene: &Scene<'_>,
        settings: &Delegation,
        because: DelegatedBecause,
    ) -> DelegationPlan {
        let delegates_per_node = match settings.delegates_per_node {
            0 => self.by_curves(scene),
            set => set,
        };
        DelegationPlan::On {
            stripe_bytes: settings.stripe_bytes,
            min_read_bytes: settings.min_read_bytes,
            min_write_bytes: settings.min_write_bytes,
            delegates_per_node,
            because,
        }
    }

    /// As many delegates as the medium that bears the fewest bears, of those in use.
    fn by_curves(&mut self, scene: &Scene<'_>) -> u32 {
        let used = scene.media.iter();
        let used = used.filter(|facts| facts.measured.demand > 0);
        let curves = used.filter_map(|facts| Curve::of(scene.machine, facts));
        let mut fewest: Option<(u32, Curve<'_>)> = None;
        for curve in curves {
            let most = curve.most_delegates();
            if fewest.as_ref().is_none_or(|(other, _)| most < *other) {
                fewest = Some((most, curve));
            }
        }
        let Some((most, curve)) = fewest else {
            return self.count.unwrap_or(1);
        };
        let stays = self.count.filter(|count| curve.is_good(*count));
        *self.count.insert(stays.unwrap_or(most))
    }
}

/// What a medium gives to a number of delegates, for the mix of reads and writes that it has now.
struct Curve<'a> {
    medium: Medium<'a>,
    write_share: f64,
    /// Delegates that its node has cores for.
    most: u32,
}

impl Curve<'_> {
    fn of<'a>(machine: &'a Machine, facts: &MediumFacts) -> Option<Curve<'a>> {
        let index = machine.index_of(facts.node)?;
        let cores = machine.core_count(&machine.nodes[index]) as u32;
        Some(Curve {
            medium: machine.bounded_medium(index)?,
            write_share: facts.measured.mix.write_share,
            most: cores.clamp(1, MOST_DELEGATES),
        })
    }

    /// Bandwidth with this number of delegates, bytes/s.
    fn bytes_s(&self, delegates: u32) -> f64 {
        let of = |kind: AccessKind| {
            let streams = self.medium.side(kind).stream_bytes_s * f64::from(delegates);
            let capacity = self.medium.capacity_bytes_s(kind, false, delegates);
            streams.min(capacity).max(1.0)
        };
        let writes = self.write_share.clamp(0.0, 1.0);
        1.0 / (writes / of(AccessKind::Write) + (1.0 - writes) / of(AccessKind::Read))
    }

    fn best_bytes_s(&self) -> f64 {
        let all = (1..=self.most).map(|delegates| self.bytes_s(delegates));
        all.fold(0.0, f64::max)
    }

    /// The most with which the medium gives nearly all that it can: a delegate is at it only for a part of its time.
    fn most_delegates(&self) -> u32 {
        let least = NEARLY_ALL * self.best_bytes_s();
        let good = |delegates: &u32| self.bytes_s(*delegates) >= least;
        (1..=self.most).rev().find(good).unwrap_or(1)
    }

    fn is_good(&self, delegates: u32) -> bool {
        delegates <= self.most && self.bytes_s(delegates) >= STILL_GOOD * self.best_bytes_s()
    }
}

/// Delegation bounds how many threads are at a medium and makes their accesses local (OdinFS slides, "PM cannot handle
/// arbitrary concurrent accesses", "Remote PM access degrades severely"): it is wanted where one of the two is needed.
fn wanted(scene: &Scene<'_>, settings: &Delegation) -> Result<DelegatedBecause, DirectBecause> {
    let mut fullest: Option<(u32, u32, &MediumFacts)> = None;
    for facts in scene.media {
        let Some(index) = scene.machine.index_of(facts.node) else {
            continue;
        };
        if !scene
            .machine
            .has_bounded_medium(&scene.machine.nodes[index])
        {
            continue;
        }
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

/// Share of the bytes of file I/O that go to other nodes, with threads where the plan puts them; 0 without any. Writes count
/// as local, unless files are striped: then they go where the stripes are.
pub(super) fn remote_share(
    machine: &Machine,
    window: &Window,
    plan: &Plan,
    media: &[MediumFacts],
) -> f64 {
    let has_stripes = media.iter().any(|facts| facts.striped_files == Some(true));
    let (mut remote, mut all) = (0.0, 0.0);
    for facts in &window.threads {
        let step = plan.move_of(facts.key);
        let here = machine.index_of(step.map_or(facts.node, |step| step.to));
        let elsewhere = |bytes: &[u64]| {
            let here = here.and_then(|index| bytes.get(index)).copied();
            let all = bytes
                .iter()
                .fold(0u64, |all, bytes| all.saturating_add(*bytes));
            all.saturating_sub(here.unwrap_or_default()) as f64
        };
        remote += elsewhere(&facts.read_bytes);
        if has_stripes && step.is_none() {
            remote += elsewhere(&facts.written_bytes);
        }
        all += facts.moved_total() as f64;
    }
    if all > 0.0 { remote / all } else { 0.0 }
}
