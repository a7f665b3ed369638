//! How far a prediction may be off, from the model's errors where measurements exist.
//!
//! The errors are of measurements that calibrate nothing. For speeds this is the validation set
//! (docs/explanation/validation.md). For gains it is the numbers of the four papers that compare two systems. They lie
//! in `data/errors.toml`, written by the crate that runs the model on them; its test keeps both alike. Each kind of
//! prediction gets a range of factors of the prediction that contained four of five measurements. The range also holds the
//! prediction itself: where the model was mostly too high or too low, it ends there, and says so.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use egeria_machine::MemoryKind;
use egeria_policy::planner::System;
use serde::{Deserialize, Serialize};

use crate::outcome::Outcome;

const ERRORS: &str = include_str!("../data/errors.toml");
/// The share of measurements that a range holds.
pub const COVERED_SHARE: f64 = 0.8;
/// A kind of which less was measured is judged by a wider one.
const MIN_MEASUREMENTS: usize = 5;
/// Traffic is of one kind when so much of it is.
const MOST: f64 = 0.9;

/// All errors of the model that are known.
#[derive(Deserialize, Serialize, Clone, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
pub struct KnownErrors {
    pub speed: Vec<SpeedError>,
    /// Errors of one system's speed compared with another's.
    pub gain: Vec<GainError>,
}

/// The model compared with one measured speed.
#[derive(Deserialize, Serialize, Clone, PartialEq, Debug)]
pub struct SpeedError {
    /// What was accessed.
    #[serde(flatten)]
    pub kind: TrafficKind,
    /// The model's over the measured speed.
    pub ratio: f64,
}

/// The model compared with one measured gain.
#[derive(Deserialize, Serialize, Clone, PartialEq, Debug)]
#[serde(deny_unknown_fields)]
pub struct GainError {
    /// The paper: `NThread`, `PATS`, `OdinFS` or `AsymSched`.
    pub paper: String,
    /// The model's over the measured gain; of a loss, the other way round.
    pub ratio: f64,
}

/// What most of a program's traffic is.
#[derive(Deserialize, Serialize, Clone, Copy, PartialEq, Eq, Debug)]
pub struct TrafficKind {
    pub memory: MemoryKind,
    /// Whether it is on the node of the threads.
    pub is_local: bool,
    /// Reads, writes, or both.
    pub access: AccessMix,
}

/// Reads, writes, or both.
#[derive(Deserialize, Serialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
pub enum AccessMix {
    /// Nearly all reads.
    Reads,
    /// Nearly all writes.
    Writes,
    Mixed,
}

impl AccessMix {
    /// By the share of reads.
    pub fn of(read_share: f64) -> AccessMix {
        match read_share {
            share if share >= MOST => AccessMix::Reads,
            share if share <= 1.0 - MOST => AccessMix::Writes,
            _ => AccessMix::Mixed,
        }
    }

    fn name(self) -> &'static str {
        match self {
            AccessMix::Reads => "reads",
            AccessMix::Writes => "writes",
            AccessMix::Mixed => "reads and writes",
        }
    }
}

impl TrafficKind {
    /// What most of a run's traffic was; `None` where memory was not accessed.
    pub fn of(outcome: &Outcome) -> Option<TrafficKind> {
        let nodes = outcome.windows.iter().flat_map(|window| &window.nodes);
        let (mut by_kind, mut read, mut all) = (BTreeMap::new(), 0.0, 0.0);
        for memory in nodes.flat_map(|node| &node.memories) {
            let bytes_s = memory.read_bytes_s + memory.written_bytes_s;
            *by_kind.entry(memory.kind).or_insert(0.0) += bytes_s;
            read += memory.read_bytes_s;
            all += bytes_s;
        }
        let most = by_kind
            .into_iter()
            .max_by(|one, other| one.1.total_cmp(&other.1));
        most.filter(|_| all > 0.0).map(|(memory, _)| TrafficKind {
            memory,
            is_local: outcome.local_share >= 0.5,
            access: AccessMix::of(read / all),
        })
    }
}

/// How far a prediction may be off.
#[derive(Serialize, Clone, PartialEq, Debug)]
pub struct Uncertainty {
    /// One of ten measurements was below this, as times what the model gives; at most 1.
    pub low: f64,
    /// One of ten was above this; at least 1.
    pub high: f64,
    /// On which side of nearly all measurements the model was.
    pub leaning: Leaning,
    /// Measurements that say so.
    pub measurements: usize,
    /// What they were of.
    pub of: String,
}

/// On which side of nearly all measurements a model is.
#[derive(Serialize, Clone, Copy, PartialEq, Eq, Debug)]
#[serde(rename_all = "snake_case")]
pub enum Leaning {
    Neither,
    /// At least nine of ten were below what the model gave.
    TooHigh,
    /// At least nine of ten were above it.
    TooLow,
}

/// Between what and what a value is in four of five cases.
#[derive(Serialize, Clone, Copy, PartialEq, Debug)]
pub struct Range {
    pub low: f64,
    pub high: f64,
}

impl Uncertainty {
    /// Of a speed of a run.
    pub fn of_speed(outcome: &Outcome) -> Uncertainty {
        speed(&KNOWN, TrafficKind::of(outcome))
    }

    /// Uncertainty of one system's speed compared with another's.
    pub fn of_gain(one: System, other: System) -> Uncertainty {
        if one == other {
            Uncertainty {
                low: 1.0,
                high: 1.0,
                leaning: Leaning::Neither,
                measurements: 0,
                of: "itself".to_owned(),
            }
        } else {
            gain(&KNOWN, paper_of(one, other))
        }
    }

    /// The range of a predicted value.
    pub fn around(&self, value: f64) -> Range {
        Range {
            low: value * self.low,
            high: value * self.high,
        }
    }
}

impl Range {
    /// Whether the value is in it.
    pub fn has(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }
}

static KNOWN: LazyLock<KnownErrors> = LazyLock::new(|| {
    // A test reads it; of a damaged file nothing is known, and every range is as wide as can be.
    toml::from_str(ERRORS).unwrap_or(KnownErrors {
        speed: Vec::new(),
        gain: Vec::new(),
    })
});

/// The errors that ship with the model.
pub fn known_errors() -> &'static KnownErrors {
    &KNOWN
}

/// The paper that compares two systems; `None`: not a single one.
fn paper_of(one: System, other: System) -> Option<&'static str> {
    match (one, other) {
        (System::Off, system) | (system, System::Off) => system.paper(),
        _ => one.paper().filter(|of_one| other.paper() == Some(of_one)),
    }
}

fn speed(known: &KnownErrors, kind: Option<TrafficKind>) -> Uncertainty {
    let all = || known.speed.iter();
    let ratios = |of: &dyn Fn(&TrafficKind) -> bool| -> Vec<f64> {
        let of = all().filter(|error| of(&error.kind));
        of.map(|error| error.ratio).collect()
    };
    let everything = (ratios(&|_| true), "all speeds".to_owned());
    let Some(kind) = kind else {
        return within(everything.0, everything.1);
    };
    let place = if kind.is_local { "local" } else { "remote" };
    let name = kind.memory.name();
    let candidates = [
        (
            ratios(&|other| *other == kind),
            format!("{} of {place} {name} memory", kind.access.name()),
        ),
        (
            ratios(&|other| other.memory == kind.memory && other.is_local == kind.is_local),
            format!("accesses of {place} {name} memory"),
        ),
        (
            ratios(&|other| other.is_local == kind.is_local),
            format!("accesses of {place} memory of any kind"),
        ),
        everything,
    ];
    narrowest(candidates)
}

fn gain(known: &KnownErrors, paper: Option<&str>) -> Uncertainty {
    let ratios = |of: &dyn Fn(&str) -> bool| -> Vec<f64> {
        let of = known.gain.iter().filter(|error| of(&error.paper));
        of.map(|error| error.ratio).collect()
    };
    let everything = (ratios(&|_| true), "gains of all four papers".to_owned());
    match paper {
        None => within(everything.0, everything.1),
        Some(paper) => narrowest([
            (ratios(&|other| other == paper), format!("gains of {paper}")),
            everything,
        ]),
    }
}

/// The first kind of which enough was measured; the last one is taken as it is.
fn narrowest<const COUNT: usize>(candidates: [(Vec<f64>, String); COUNT]) -> Uncertainty {
    let mut last = (Vec::new(), String::new());
    for candidate in candidates {
        let is_enough = candidate.0.len() >= MIN_MEASUREMENTS;
        last = candidate;
        if is_enough {
            break;
        }
    }
    within(last.0, last.1)
}

/// What four of five measurements are of the model's figure, and that figure; of no measurement, anything.
fn within(ratios: Vec<f64>, of: String) -> Uncertainty {
    let mut factors: Vec<f64> = ratios.iter().map(|ratio| 1.0 / ratio).collect();
    factors.retain(|factor| factor.is_finite());
    factors.sort_by(f64::total_cmp);
    let count = factors.len();
    // Left out at each end; the sum keeps rounding from leaving out one less.
    let outside = ((1.0 - COVERED_SHARE) / 2.0 * count as f64 + 1e-9) as usize;
    let high = count.checked_sub(1 + outside);
    let low = factors.get(outside).copied().unwrap_or(0.0);
    let high = high.map_or(f64::MAX, |at| factors[at]);
    Uncertainty {
        low: low.min(1.0),
        high: high.max(1.0),
        leaning: match (low > 1.0, high < 1.0) {
            (true, _) => Leaning::TooLow,
            (_, true) => Leaning::TooHigh,
            _ => Leaning::Neither,
        },
        measurements: count,
        of,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(memory: MemoryKind, is_local: bool, access: AccessMix) -> TrafficKind {
        TrafficKind {
            memory,
            is_local,
            access,
        }
    }

    fn known(speeds: &[(TrafficKind, f64)]) -> KnownErrors {
        let speed = |(kind, ratio): &(TrafficKind, f64)| SpeedError {
            kind: *kind,
            ratio: *ratio,
        };
        KnownErrors {
            speed: speeds.iter().map(speed).collect(),
            gain: Vec::new(),
        }
    }

    #[test]
    fn four_of_five_measurements_are_in_the_range() {
        // One of ten was a quarter of what the model gave, one four times that: both are left out.
        let ratios = vec![4.0, 1.0, 1.0, 1.0, 1.25, 0.25, 1.0, 1.0, 2.0, 0.5];
        let of = within(ratios, String::new());
        assert_eq!((of.low, of.high, of.measurements), (0.5, 2.0, 10));
        let around = of.around(10.0);
        assert_eq!((around.low, around.high), (5.0, 20.0));
        assert_eq!(of.leaning, Leaning::Neither);
        // A range ends at a prediction that is always too high or too low.
        let of = within(vec![2.0; 5], String::new());
        assert_eq!((of.low, of.high, of.leaning), (0.5, 1.0, Leaning::TooHigh));
        let of = within(vec![0.5; 5], String::new());
        assert_eq!((of.low, of.high, of.leaning), (1.0, 2.0, Leaning::TooLow));
    }

    #[test]
    fn a_kind_hardly_measured_is_judged_by_a_wider_one() {
        let reads = kind(MemoryKind::Dram, true, AccessMix::Reads);
        let writes = kind(MemoryKind::Dram, true, AccessMix::Writes);
        let mut speeds = vec![(reads, 1.1); 4];
        assert_eq!(speed(&known(&speeds), Some(reads)).of, "all speeds");
        speeds.extend([(writes, 2.0)]);
        let wider = speed(&known(&speeds), Some(reads));
        assert_eq!(wider.of, "accesses of local dram memory");
        speeds.extend([(reads, 1.1)]);
        let own = speed(&known(&speeds), Some(reads));
        assert_eq!(
            (own.of.as_str(), own.measurements),
            ("reads of local dram memory", 5)
        );
        assert!((own.low - 1.0 / 1.1).abs() < 1e-9);
    }

    #[test]
    fn nothing_known_is_no_narrow_range() {
        let of = speed(&known(&[]), None);
        assert_eq!((of.low, of.high, of.measurements), (0.0, f64::MAX, 0));
    }

    #[test]
    fn systems_of_several_papers_are_judged_by_all_papers() {
        let all = "gains of all four papers";
        for (one, other, expected) in [
            (System::Pats, System::Off, "gains of PATS"),
            (System::Off, System::Full, "gains of NThread"),
            (System::Rl, System::Full, "gains of NThread"),
            (System::Pats, System::Full, all),
            (System::All, System::Full, all),
            (System::All, System::Off, all),
        ] {
            assert_eq!(Uncertainty::of_gain(one, other).of, expected);
        }
    }

    #[test]
    fn the_errors_that_ship_are_read() {
        let known: KnownErrors = toml::from_str(ERRORS).unwrap();
        assert!(known.speed.len() >= 40 && known.gain.len() >= 40);
        let all = known.speed.iter().map(|error| error.ratio);
        let all = all.chain(known.gain.iter().map(|error| error.ratio));
        assert!(all.into_iter().all(|ratio| ratio > 0.0));
        for system in System::ALL {
            let of = Uncertainty::of_gain(system, System::Off);
            let is_range = of.low > 0.01 && of.low <= of.high && of.high < 100.0;
            assert!(is_range, "{system:?}: {of:?}");
        }
    }
}
