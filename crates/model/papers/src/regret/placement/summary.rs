//! What many cases have in common.

use std::collections::BTreeMap;

use serde::Serialize;

use super::Case;
use crate::quantile::quantile;

/// The least that `all` may get of what `off` gets.
pub const MIN_OF_OFF: f64 = 0.97;
/// What `all` should get of the best, in the mean.
pub const MEAN_OF_BEST: f64 = 0.95;
const WORST: usize = 20;

/// What `all` gets in many cases.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Placement {
    pub cases: usize,
    pub aims: Vec<Aim>,
    /// Cases in which `all` gets less than it should of `off`.
    pub below_off: usize,
    /// `all` divided by `off`: the least, and what 1 %, 5 % and half of the cases are below.
    pub vs_off: [f64; 4],
    /// `all` divided by the best of nothing, the random placements and the peers.
    pub vs_best: [f64; 4],
    pub mean: Mean,
    /// By machine.
    pub machines: BTreeMap<String, Mean>,
    /// By fault: of cases with at least one such program.
    pub faults: BTreeMap<&'static str, Mean>,
    /// The cases that lose most to `off`.
    pub worst_of_off: Vec<Case>,
    /// The cases that lose most to the best.
    pub worst_of_best: Vec<Case>,
}

/// What is wanted, and what was found.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Aim {
    pub what: &'static str,
    pub wanted: f64,
    pub found: f64,
    pub is_reached: bool,
}

/// Geometric means over cases.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Mean {
    pub cases: usize,
    /// `all` divided by `off`.
    pub vs_off: f64,
    /// `all` divided by the best.
    pub vs_best: f64,
    /// The best divided by `off`: what there is to gain.
    pub best_vs_off: f64,
    /// `all` divided by the best random placement, and by each peer.
    pub vs: BTreeMap<&'static str, f64>,
}

impl Placement {
    /// Of these cases.
    pub fn of(cases: &[Case]) -> Placement {
        let mean = Mean::of(cases.iter());
        let least = cases
            .iter()
            .map(|case| case.all)
            .fold(f64::INFINITY, f64::min);
        let (mut machines, mut faults) = (BTreeMap::new(), BTreeMap::new());
        for case in cases {
            machines.insert(case.machine.clone(), ());
            faults.extend(case.faults.iter().map(|fault| (*fault, ())));
        }
        let of_machine =
            |name: &String| Mean::of(cases.iter().filter(|case| case.machine == *name));
        let of_fault =
            |name: &&str| Mean::of(cases.iter().filter(|case| case.faults.contains(name)));
        let aim = |what, wanted, found| Aim {
            what,
            wanted,
            found,
            is_reached: found >= wanted,
        };
        Placement {
            cases: cases.len(),
            aims: vec![
                aim("all of off, in every case", MIN_OF_OFF, least),
                aim("all of the best, in the mean", MEAN_OF_BEST, mean.vs_best),
            ],
            below_off: cases.iter().filter(|case| case.all < MIN_OF_OFF).count(),
            vs_off: spread(cases, &|case| case.all),
            vs_best: spread(cases, &Case::vs_best),
            machines: machines
                .keys()
                .map(|name| (name.clone(), of_machine(name)))
                .collect(),
            faults: faults.keys().map(|name| (*name, of_fault(name))).collect(),
            worst_of_off: worst(cases, &|case| case.all),
            worst_of_best: worst(cases, &Case::vs_best),
            mean,
        }
    }
}

impl Case {
    /// `all` divided by the best of nothing, the random placements and the peers.
    pub fn vs_best(&self) -> f64 {
        self.all / self.best.1
    }
}

impl Mean {
    fn of<'a>(cases: impl Iterator<Item = &'a Case> + Clone) -> Mean {
        let mean = |of: &dyn Fn(&Case) -> f64| {
            let (mut sum, mut count) = (0.0, 0.0);
            for case in cases.clone() {
                sum += of(case).max(1e-9).ln();
                count += 1.0;
            }
            (sum / f64::max(count, 1.0)).exp()
        };
        let mut vs = BTreeMap::from([("random", mean(&|case| case.all / case.random))]);
        let peers = cases.clone().next().map_or(0, |case| case.peers.len());
        for index in 0..peers {
            let name = cases.clone().next().map_or("", |case| case.peers[index].0);
            vs.insert(name, mean(&|case| case.all / case.peers[index].1));
        }
        Mean {
            cases: cases.clone().count(),
            vs_off: mean(&|case| case.all),
            vs_best: mean(&Case::vs_best),
            best_vs_off: mean(&|case| case.best.1),
            vs,
        }
    }
}

fn spread(cases: &[Case], of: &dyn Fn(&Case) -> f64) -> [f64; 4] {
    let mut ratios: Vec<f64> = cases.iter().map(of).collect();
    ratios.sort_by(f64::total_cmp);
    [0.0, 0.01, 0.05, 0.5].map(|share| quantile(&ratios, share))
}

fn worst(cases: &[Case], of: &dyn Fn(&Case) -> f64) -> Vec<Case> {
    let mut cases = cases.to_vec();
    cases.sort_by(|one, other| of(one).total_cmp(&of(other)));
    cases.truncate(WORST);
    cases
}
