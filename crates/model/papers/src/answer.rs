//! How each claim is answered, and how an answer is judged. The answers are a table, `data/answers.tsv`.
//!
//! | kind in the table | a claim is | when | judged |
//! | --- | --- | --- | --- |
//! | `change`, `times`, `share`, `loss` | predicted | the model gives its number, of two systems | model / paper; the error is its distance from 1 |
//! | `number` | predicted | the model gives its number | likewise |
//! | `faster`, `similar` | an ordering | it says that one is faster than another, or similar | holds when the least ratio is above 1; similar: when all are within 10 % |
//! | `at most`, `at least` | a bound | it gives only a bound ("more than 90 %") | holds or not; no error |
//! | `setting` | a setting | it is a constant or worked value of a system | the policy's own value must equal it; no error |
//! | `input` | an input | the model or the machine is calibrated on it | not judged |
//! | `unanswered` | unanswered | neither | the reason is given |
//!
//! "Up to" and "about" are taken as the number they give: the largest of the model's cases, or its value. A
//! prediction that compares two systems counts as an ordering too: the model must put the same one first. `across` marks
//! comparisons of two file systems.

use crate::claim::Claim;
use crate::code;
use crate::error::{Result, shipped};
use crate::said::{Combine, Said};

/// The table that ships with Egeria: id, kind, part of the claim, answer; tab-separated.
const TABLE: &str = include_str!("../data/answers.tsv");
const NAME: &str = "answers.tsv";

/// How a value in a table is to be read, and what the model gives for it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reading {
    /// A change in per cent: +40.5 is 1.405 times, -34.6 is 0.654 times.
    Change,
    /// A loss in per cent: 90 leaves 0.1.
    Loss,
    /// A share in per cent: 77.6 is 0.776.
    Share,
    /// The number as it is.
    Plain,
}

impl Reading {
    /// The number of the claim at this place, as a ratio or as it is.
    pub(crate) fn of(self, claim: &Claim, part: usize) -> Option<f64> {
        let number = *claim.numbers().get(part)?;
        Some(match self {
            Reading::Change => 1.0 + number / 100.0,
            Reading::Loss => 1.0 - number / 100.0,
            Reading::Share => number / 100.0,
            Reading::Plain => number,
        })
    }

    pub(crate) fn named(word: &str) -> Option<Reading> {
        Some(match word {
            "change" => Reading::Change,
            "loss" => Reading::Loss,
            "share" => Reading::Share,
            "plain" => Reading::Plain,
            _ => return None,
        })
    }
}

/// How a claim, or a part of one, is answered.
pub(crate) enum Answer {
    /// The model gives its number.
    Predicted(Prediction),
    /// The model puts one before the other, when the ratio is above 1.
    Faster(Said<'static>),
    /// The model finds them alike, when the ratio is near 1.
    Similar(Said<'static>),
    /// The model keeps a bound.
    Bound {
        reading: Reading,
        at_most: bool,
        said: Said<'static>,
    },
    /// The policy's own value.
    Setting {
        reading: Reading,
        value: fn() -> f64,
    },
    /// The model is calibrated on it: where it went.
    Input(&'static str),
    /// The model cannot say: why.
    Unanswered(&'static str),
}

/// A number that the model gives.
pub(crate) struct Prediction {
    pub(crate) reading: Reading,
    /// Which number of the claim.
    pub(crate) part: usize,
    /// Which part of the claim, when it has several; else empty.
    pub(crate) label: &'static str,
    /// Whether it compares two systems or placements, so that it says which is faster.
    pub(crate) compares: bool,
    /// The two are on different file systems: what software takes differs, too.
    pub(crate) across: bool,
    pub(crate) said: Said<'static>,
}

/// All answers with the claims' ids, in the table's order.
pub(crate) fn answers() -> Result<Vec<(&'static str, Answer)>> {
    let lines = TABLE.lines().enumerate().skip(1);
    let parsed = lines.map(|(index, line)| {
        let damaged = || shipped(NAME, format!("line {} is no answer", index + 1));
        answer(line).ok_or_else(damaged)
    });
    parsed.collect()
}

fn answer(line: &'static str) -> Option<(&'static str, Answer)> {
    let cells: Vec<&str> = line.split('\t').collect();
    let [id, kind, part, text] = cells[..] else {
        return None;
    };
    let said = |combine| Said::parse(text, combine);
    let answer = match kind {
        "faster" => Answer::Faster(said(Combine::Least)?),
        "similar" => Answer::Similar(said(Combine::Farthest)?),
        "input" => Answer::Input(text),
        "unanswered" => Answer::Unanswered(text),
        _ => match kind.rsplit_once(' ') {
            Some((bound @ ("at most" | "at least"), reading)) => Answer::Bound {
                reading: Reading::named(reading)?,
                at_most: bound == "at most",
                said: said(Combine::Mean)?,
            },
            Some(("setting", reading)) => Answer::Setting {
                reading: Reading::named(reading)?,
                value: code::setting(text)?,
            },
            _ => Answer::Predicted(prediction(kind, part, said(Combine::Mean)?)?),
        },
    };
    Some((id, answer))
}

fn prediction(kind: &str, part: &'static str, said: Said<'static>) -> Option<Prediction> {
    let same = kind.strip_suffix(" across");
    let (reading, compares) = match same.unwrap_or(kind) {
        "times" => (Reading::Plain, true),
        "number" => (Reading::Plain, false),
        "number share" => (Reading::Share, false),
        word => (Reading::named(word)?, true),
    };
    let (part, label) = part.split_once(' ').unwrap_or(("0", part));
    Some(Prediction {
        reading,
        part: part.parse().ok()?,
        label,
        compares,
        across: same.is_some(),
        said,
    })
}
