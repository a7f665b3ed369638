//! The model compared with measurements that calibrate nothing, declared before it ran on them
//! (docs/explanation/validation.md).

use egeria_machine::{Fact, FactValue, Machine};
use egeria_stats::aims::{Aim, share};
use serde::Serialize;

use crate::error::{Result, shipped};
use crate::facts::{FactRow, row, sorted_errors};
use crate::quantile::quantile;
use crate::validation_orderings::{ValidationOrdering, orderings};

/// The sets in the order of their declaration: name, file, measurements.
const SETS: [(&str, &str, &str); 2] = [
    (
        "first set",
        "validation.toml",
        include_str!("../data/validation.toml"),
    ),
    (
        "second set",
        "validation_dram.toml",
        include_str!("../data/validation_dram.toml"),
    ),
];
/// What is aimed at, of each set.
const MEDIAN_AIMS: [&str; 2] = ["median error", "second set: median error"];
const ORDERINGS_AIMS: [&str; 2] = ["orderings", "second set: orderings"];

/// How far the model is from some measurements.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Distance {
    pub rows: usize,
    /// Median of their errors, as a share.
    pub median_error: f64,
    /// 90 % of them are at most this.
    pub p90_error: f64,
    pub worst_error: f64,
}

/// The validation sets compared with the model.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ValidationReport {
    /// Nothing here was measured by us.
    pub predicted: bool,
    /// The first set.
    #[serde(flatten)]
    pub first: ValidationSet,
    /// The sets that were declared later.
    pub more: Vec<ValidationSet>,
    /// What these figures are aimed at.
    pub aims: Vec<Aim>,
}

/// One validation set compared with the model.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ValidationSet {
    pub set: &'static str,
    /// All of the set.
    pub all: Distance,
    /// Those of which no profile knows the machine.
    pub independent: Distance,
    /// Those held out of machines that profiles are calibrated on.
    pub held_out: Distance,
    /// Bandwidths, and latencies next to a load.
    pub bandwidths: Distance,
    pub loaded_latencies: Distance,
    /// Pairs of measurements of which one is clearly faster.
    pub orderings: usize,
    /// Those in which the model has the same one faster.
    pub orderings_held: usize,
    /// Median of all errors, as a share.
    pub median_error: f64,
    /// 90 % of them are at most this.
    pub p90_error: f64,
    /// Each measurement.
    pub rows: Vec<FactRow>,
    pub ordering_rows: Vec<ValidationOrdering>,
}

impl ValidationReport {
    /// The sets in the order of their declaration.
    pub fn sets(&self) -> impl Iterator<Item = &ValidationSet> {
        [&self.first].into_iter().chain(&self.more)
    }
}

/// Runs the model on the validation sets.
///
/// # Errors
/// When a file that ships with Egeria is damaged.
pub fn validation() -> Result<ValidationReport> {
    let [first, second] = SETS.map(|(name, file, text)| set(name, file, text));
    let (first, second) = (first?, second?);
    let mut aims = Vec::new();
    for (index, set) in [&first, &second].into_iter().enumerate() {
        let held = share(set.orderings_held, set.orderings);
        aims.push(Aim::at_most(MEDIAN_AIMS[index], 0.2, set.median_error));
        aims.push(Aim::at_least(ORDERINGS_AIMS[index], 0.9, held));
    }
    Ok(ValidationReport {
        predicted: true,
        first,
        more: vec![second],
        aims,
    })
}

fn set(name: &'static str, file: &str, text: &str) -> Result<ValidationSet> {
    let facts = Machine::read_facts(text, file).map_err(|error| shipped(file, error))?;
    let mut rows = Vec::with_capacity(facts.len());
    for fact in facts {
        let machine = fact.machine.clone();
        let machine = machine.ok_or_else(|| shipped(file, "a row names no machine"))?;
        rows.push(row(&machine, fact)?);
    }
    let of = |is_meant: &dyn Fn(&Fact) -> bool| {
        let of = rows.iter().filter(|row| is_meant(&row.fact));
        distance(&of.cloned().collect::<Vec<FactRow>>())
    };
    let (all, ordering_rows) = (distance(&rows), orderings(&rows));
    Ok(ValidationSet {
        set: name,
        all,
        independent: of(&|fact| !fact.held_out),
        held_out: of(&|fact| fact.held_out),
        bandwidths: of(&|fact| matches!(fact.value, FactValue::BytesPerSecond(_))),
        loaded_latencies: of(&|fact| fact.load_bytes_s.is_some()),
        orderings: ordering_rows.len(),
        orderings_held: ordering_rows.iter().filter(|each| each.held).count(),
        median_error: all.median_error,
        p90_error: all.p90_error,
        rows,
        ordering_rows,
    })
}

fn distance(rows: &[FactRow]) -> Distance {
    let errors = sorted_errors(rows);
    Distance {
        rows: rows.len(),
        median_error: quantile(&errors, 0.5),
        p90_error: quantile(&errors, 0.9),
        worst_error: quantile(&errors, 1.0),
    }
}
