//! The model compared with measurements that calibrate nothing, declared before it ran on them
//! (docs/explanation/validation.md).

use egeria_machine::Machine;
use egeria_stats::aims::{Aim, share};
use serde::Serialize;

use crate::error::{Result, shipped};
use crate::facts::{FactRow, row, sorted_errors};
use crate::quantile::quantile;
use crate::validation_orderings::{ValidationOrdering, orderings};

const SET: &str = include_str!("../data/validation.toml");
const NAME: &str = "validation.toml";

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

/// The validation set compared with the model.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct ValidationReport {
    /// Nothing here was measured by us.
    pub predicted: bool,
    /// All of the set.
    pub all: Distance,
    /// Those of which no profile knows the machine.
    pub independent: Distance,
    /// Those held out of machines that profiles are calibrated on.
    pub held_out: Distance,
    /// Pairs of measurements of which one is clearly faster.
    pub orderings: usize,
    /// Those in which the model has the same one faster.
    pub orderings_held: usize,
    /// Median of all errors, as a share.
    pub median_error: f64,
    /// 90 % of them are at most this.
    pub p90_error: f64,
    /// What these figures are aimed at.
    pub aims: Vec<Aim>,
    /// Each measurement.
    pub rows: Vec<FactRow>,
    pub ordering_rows: Vec<ValidationOrdering>,
}

/// Runs the model on the validation set.
///
/// # Errors
/// When a file that ships with Egeria is damaged.
pub fn validation() -> Result<ValidationReport> {
    let facts = Machine::read_facts(SET, NAME).map_err(|error| shipped(NAME, error))?;
    let mut rows = Vec::with_capacity(facts.len());
    for fact in facts {
        let machine = fact.machine.clone();
        let machine = machine.ok_or_else(|| shipped(NAME, "a row names no machine"))?;
        rows.push(row(&machine, fact)?);
    }
    let of = |held_out: bool| -> Vec<FactRow> {
        let of = rows.iter().filter(|row| row.fact.held_out == held_out);
        of.cloned().collect()
    };
    let (all, ordering_rows) = (distance(&rows), orderings(&rows));
    let held = ordering_rows.iter().filter(|each| each.held).count();
    let aims = vec![
        Aim::at_most("median error", 0.2, all.median_error),
        Aim::at_least("orderings", 0.9, share(held, ordering_rows.len())),
    ];
    Ok(ValidationReport {
        aims,
        predicted: true,
        all,
        orderings: ordering_rows.len(),
        orderings_held: held,
        median_error: all.median_error,
        p90_error: all.p90_error,
        ordering_rows,
        independent: distance(&of(false)),
        held_out: distance(&of(true)),
        rows,
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
