//! How far the model was from what others measured: what its predictions' ranges come from.

use egeria_machine::FactValue;
use egeria_sim::uncertainty::{AccessMix, GainError, KnownErrors, SpeedError, TrafficKind};

use crate::claim::Paper;
use crate::error::Result;
use crate::facts::FactRow;
use crate::report::{Report, Row};
use crate::validation::validation;

/// Digits kept of a ratio: what machines compute alike.
const ROUNDING: f64 = 1e3;

impl Report {
    /// The model's errors in speeds (of the validation sets) and in gains (of the numbers in this report that compare
    /// two systems).
    ///
    /// # Errors
    /// When a file that ships with Egeria is damaged.
    pub fn known_errors(&self) -> Result<KnownErrors> {
        let validation = validation()?;
        let speeds = validation.sets().flat_map(|set| &set.rows);
        let speeds = speeds.filter(|row| matches!(row.fact.value, FactValue::BytesPerSecond(_)));
        let speed = |row: &FactRow| SpeedError {
            kind: TrafficKind {
                memory: row.fact.memory,
                is_local: row.fact.node == row.fact.home,
                access: AccessMix::of(row.fact.read_share),
            },
            ratio: rounded(row.ratio),
        };
        let gains = self.rows.iter().filter(|row| self.compares(row));
        let gain = |row: &Row| GainError {
            paper: match Paper::of_id(&row.id) {
                Some(Paper::NThreadSlides) => Paper::NThread.name().to_owned(),
                paper => paper.map_or_else(String::new, |paper| paper.name().to_owned()),
            },
            // A loss is given as the part that is left.
            ratio: rounded(if row.paper >= 1.0 {
                row.ratio
            } else {
                1.0 / row.ratio
            }),
        };
        Ok(KnownErrors {
            speed: speeds.map(speed).collect(),
            gain: gains.map(gain).collect(),
        })
    }

    /// Whether a number says how much faster one of two is, on the same file system: what `egeria sim` compares.
    fn compares(&self, row: &Row) -> bool {
        let mut orderings = self.ordering_rows.iter();
        !row.across
            && orderings.any(|other| !other.pure && other.id == row.id && other.item == row.item)
    }
}

fn rounded(ratio: f64) -> f64 {
    (ratio * ROUNDING).round() / ROUNDING
}
