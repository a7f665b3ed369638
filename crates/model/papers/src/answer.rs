//! How each claim is answered, and how an answer is judged. The answers are a table, `data/answers.tsv`.
//!
//! | kind in the table | a claim is | when | judged |
//! | --- | --- | --- | --- |
//! | `change`, `times`, `share`, `loss` | predicted | the model gives its number, of two systems | model / paper; the error is its distance from 1 |
//! | `number` | predicted | the model gives its number | likewise |
//! | `faster`, `similar`, `close` | an ordering | it says that one is faster than another, similar, or no worse | holds when the least ratio is above 1; similar: when all are within 10 %; close: when none is more than 10 % below |
//! | `at most`, `at least` | a bound | it gives only a bound ("more than 90 %") | holds or not; no error |
//! | `setting` | a setting | it is a constant or worked value of a system | the policy's own value must equal it; no error |
//! | `input` | an input | the model or the machine is calibrated on it, or it is a quotient of such inputs | not judged |
//! | `unanswered` | unanswered | neither | the reason is given |
//!
//! "Up to" and "about" are taken as the number they give: the largest of the model's cases, or its value. A
//! prediction that compares two systems counts as an ordering too: the model must put the same one first. `across` marks
//! comparisons of two file systems. `own` in front of an ordering or a bound says that the setting is our own, not the
//! paper's; it is judged and not counted. A line whose part is `and` adds to the ordering above it: all must hold.

use crate::alike::SIMILAR;
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
    /// The model puts systems in order.
    Ordering(Ordering),
    /// The model keeps a bound.
    Bound(Bound),
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

/// What a claim says of the order of systems: all parts must hold.
pub(crate) struct Ordering {
    pub(crate) parts: Vec<(Order, Said<'static>)>,
    /// The setting is ours, not the paper's.
    pub(crate) own_setting: bool,
}

/// How two systems compare.
#[derive(Clone, Copy)]
pub(crate) enum Order {
    Faster,
    Similar,
    /// As fast, or faster.
    Close,
}

/// A faster system must be faster by more than the model's own rounding.
const FASTER: f64 = 1.001;

impl Order {
    /// Whether a ratio of the model says so.
    pub(crate) fn holds(self, ratio: f64) -> bool {
        match self {
            Order::Faster => ratio > FASTER,
            Order::Similar => (ratio - 1.0).abs() <= SIMILAR,
            Order::Close => ratio >= 1.0 - SIMILAR,
        }
    }

    /// The order of this name, and which of several ratios decides.
    fn named(word: &str) -> Option<(Order, Combine)> {
        Some(match word {
            "faster" => (Order::Faster, Combine::Least),
            "similar" => (Order::Similar, Combine::Farthest),
            "close" => (Order::Close, Combine::Least),
            _ => return None,
        })
    }
}

/// A bound that a claim gives.
pub(crate) struct Bound {
    pub(crate) reading: Reading,
    pub(crate) at_most: bool,
    pub(crate) said: Said<'static>,
    /// The setting is ours, not the paper's.
    pub(crate) own_setting: bool,
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
    let mut all = Vec::new();
    for (index, line) in TABLE.lines().enumerate().skip(1) {
        take(&mut all, line)
            .ok_or_else(|| shipped(NAME, format!("line {} is no answer", index + 1)))?;
    }
    Ok(all)
}

/// Takes the answer of a line of the table.
fn take(all: &mut Vec<(&'static str, Answer)>, line: &'static str) -> Option<()> {
    let cells: Vec<&str> = line.split('\t').collect();
    let [id, kind, part, text] = cells[..] else {
        return None;
    };
    let answer = answer(kind, part, text)?;
    if part != "and" {
        all.push((id, answer));
        return Some(());
    }
    match (all.last_mut()?, answer) {
        ((last, Answer::Ordering(ordering)), Answer::Ordering(more)) if *last == id => {
            ordering.parts.extend(more.parts);
            Some(())
        }
        _ => None,
    }
}

fn answer(kind: &str, part: &'static str, text: &'static str) -> Option<Answer> {
    let said = |combine| Said::parse(text, combine);
    let own = kind.strip_prefix("own ");
    let (kind, own_setting) = (own.unwrap_or(kind), own.is_some());
    if let Some((order, combine)) = Order::named(kind) {
        return Some(Answer::Ordering(Ordering {
            parts: vec![(order, said(combine)?)],
            own_setting,
        }));
    }
    Some(match (kind, kind.rsplit_once(' ')) {
        (_, Some((bound @ ("at most" | "at least"), reading))) => Answer::Bound(Bound {
            reading: Reading::named(reading)?,
            at_most: bound == "at most",
            said: said(Combine::Mean)?,
            own_setting,
        }),
        _ if own_setting => return None,
        ("input", _) => Answer::Input(text),
        ("unanswered", _) => Answer::Unanswered(text),
        (_, Some(("setting", reading))) => Answer::Setting {
            reading: Reading::named(reading)?,
            value: code::setting(text)?,
        },
        _ => Answer::Predicted(prediction(kind, part, said(Combine::Mean)?)?),
    })
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
