//! Aims of a score, next to its figures.

use std::fmt;

use serde::Serialize;

/// A figure and its aim, both as shares.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Aim {
    pub what: &'static str,
    pub figure: f64,
    pub aim: f64,
    /// Whether the figure is to be at most the aim; else at least.
    pub at_most: bool,
    pub met: bool,
}

impl Aim {
    /// The figure is to be at most this.
    pub fn at_most(what: &'static str, aim: f64, figure: f64) -> Aim {
        Aim {
            what,
            figure,
            aim,
            at_most: true,
            met: figure <= aim,
        }
    }

    /// The figure is to be at least this.
    pub fn at_least(what: &'static str, aim: f64, figure: f64) -> Aim {
        Aim {
            at_most: false,
            met: figure >= aim,
            ..Aim::at_most(what, aim, figure)
        }
    }
}

impl fmt::Display for Aim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: {:.1} %, aim {} {:.0} %: {}",
            self.what,
            self.figure * 100.0,
            if self.at_most { "at most" } else { "at least" },
            self.aim * 100.0,
            if self.met { "met" } else { "MISSED" }
        )
    }
}

/// A line for each aim.
pub fn list(aims: &[Aim]) -> String {
    aims.iter().map(|aim| format!("{aim}\n")).collect()
}

/// The aims that are missed; `None` when all are met.
pub fn missed(aims: &[Aim]) -> Option<String> {
    let missed = aims.iter().filter(|aim| !aim.met);
    let missed: Vec<String> = missed.map(Aim::to_string).collect();
    (!missed.is_empty()).then(|| missed.join("; "))
}

/// What part of a number of things are such; all of none.
pub fn share(part: usize, all: usize) -> f64 {
    if all == 0 {
        1.0
    } else {
        part as f64 / all as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aim_is_met_on_its_own_side_and_at_the_aim() {
        let aims = [
            Aim::at_most("error", 0.15, 0.206),
            Aim::at_most("error", 0.15, 0.15),
            Aim::at_least("orderings", 0.95, share(24, 31)),
            Aim::at_least("orderings", 0.95, share(0, 0)),
        ];
        let met: Vec<bool> = aims.iter().map(|aim| aim.met).collect();
        assert_eq!(met, [false, true, false, true]);
        let missed = missed(&aims);
        let wanted =
            "error: 20.6 %, aim at most 15 %: MISSED; orderings: 77.4 %, aim at least 95 %: MISSED";
        assert_eq!(missed.as_deref(), Some(wanted));
        assert_eq!(super::missed(&aims[1..2]), None);
    }

    #[test]
    fn a_figure_that_is_no_number_meets_no_aim() {
        assert!(!Aim::at_most("error", 0.15, f64::NAN).met);
        assert!(!Aim::at_least("orderings", 0.15, f64::NAN).met);
    }
}
