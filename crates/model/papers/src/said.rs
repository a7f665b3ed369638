//! What the model gives for a claim: an expression over what the experiments gave, as text.
//!
//! ```text
//!   5a | rl/nova                     one bar over another: the mean over the figure's groups
//!   5a; 5b | rw80; rw60 | full/rl    of each of these figures and groups
//!   6a | each | full/nova            of each of the figure's groups
//!   micro | 16 KB | migration_us     a bar
//!   copy A/B @ 6                     PATS's copy on curve A over that on curve B, with 6 threads; or `persistent`
//!   copy A @ 14/0                    curve A with 14 threads over itself without
//!   copy A/B; C/D @ 1-14             of both, with each of these numbers of threads
//!   code NAME                        a function of the module `code`
//! ```
//!
//! Several values become one. That is the least of what is faster, the farthest from 1 of what is similar, else the mean.
//! `least` or `most` in front of the expression says otherwise.

use crate::code;
use crate::experiment::pats::{DEFAULT, LESS, MORE, Series, Who};
use crate::experiment::{MIXES, PERSONALITIES};
use crate::results::Results;

/// Several values become one.
#[derive(Clone, Copy)]
pub(crate) enum Combine {
    Mean,
    Least,
    Most,
    /// The ratio farthest from 1.
    Farthest,
}

/// An expression.
pub(crate) struct Said {
    combine: Combine,
    values: Values,
}

enum Values {
    Bars {
        figures: Vec<&'static str>,
        /// `None`: the mean over those of the figure.
        groups: Option<Vec<&'static str>>,
        bars: Vec<(&'static str, Option<&'static str>)>,
    },
    Curves {
        what: &'static str,
        pairs: Vec<(Series, Series)>,
        threads: Vec<(u32, u32)>,
    },
    Code(code::Said),
}

impl Said {
    pub(crate) fn parse(text: &'static str, combine: Combine) -> Option<Said> {
        let (combine, text) = match text.split_once(' ')? {
            ("least", text) => (Combine::Least, text),
            ("most", text) => (Combine::Most, text),
            _ => (combine, text),
        };
        let values = match text.split_once(' ')? {
            ("code", name) => Values::Code(code::said(name)?),
            (what @ ("copy" | "persistent"), text) => curves(what, text)?,
            _ => bars(text)?,
        };
        Some(Said { combine, values })
    }

    /// `None` when the experiment was not run.
    pub(crate) fn of(&self, results: &Results) -> Option<f64> {
        let values = self.values.of(results)?;
        let count = values.len() as f64;
        let each = values.into_iter();
        match self.combine {
            Combine::Mean => Some(each.sum::<f64>() / count),
            Combine::Least => each.reduce(f64::min),
            Combine::Most => each.reduce(f64::max),
            Combine::Farthest => farthest(each),
        }
    }
}

/// The ratio farthest from 1; of equal ones the first.
pub(crate) fn farthest(ratios: impl Iterator<Item = f64>) -> Option<f64> {
    let distance = |ratio: f64| ratio.max(f64::MIN_POSITIVE).ln().abs();
    let farther = |one, other| {
        if distance(other) > distance(one) {
            other
        } else {
            one
        }
    };
    ratios.reduce(farther)
}

impl Values {
    fn of(&self, results: &Results) -> Option<Vec<f64>> {
        let mut values = Vec::new();
        match self {
            Values::Code(said) => values.push(said(results)?),
            Values::Curves {
                what,
                pairs,
                threads,
            } => {
                for (over, under) in pairs {
                    for &(many, few) in threads {
                        let over = over.at(results, what, many)?;
                        values.push(over / under.at(results, what, few)?);
                    }
                }
            }
            Values::Bars {
                figures,
                groups,
                bars,
            } => {
                for figure in figures {
                    for &(over, under) in bars {
                        let groups = groups.as_deref();
                        values.extend(of_figure(results, figure, groups, over, under)?);
                    }
                }
            }
        }
        Some(values)
    }
}

fn of_figure(
    results: &Results,
    figure: &str,
    groups: Option<&[&str]>,
    over: &str,
    under: Option<&str>,
) -> Option<Vec<f64>> {
    let of = |group: &&str| match under {
        Some(under) => results.ratio(figure, group, over, under),
        None => results.bar(figure, group, over),
    };
    match groups {
        None => Some(vec![results.mean_ratio(
            figure,
            &all(figure),
            over,
            under?,
        )?]),
        Some(["each"]) => all(figure).iter().map(of).collect(),
        Some(groups) => groups.iter().map(of).collect(),
    }
}

/// The groups of a figure of NThread.
fn all(figure: &str) -> Vec<&'static str> {
    match figure.as_bytes().first() {
        Some(b'5') => MIXES.map(|(name, _)| name).to_vec(),
        Some(b'6') => PERSONALITIES.to_vec(),
        _ => vec!["W", "R", "RW"],
    }
}

fn bars(text: &'static str) -> Option<Values> {
    let list = |text: &'static str| text.split("; ").collect::<Vec<_>>();
    let fields: Vec<Vec<&str>> = text.split(" | ").map(list).collect();
    let (figures, groups, bars) = match &fields[..] {
        [figures, bars] => (figures, None, bars),
        [figures, groups, bars] => (figures, Some(groups.clone()), bars),
        _ => return None,
    };
    let bar = |text: &&'static str| match text.split_once('/') {
        Some((over, under)) => (over, Some(under)),
        None => (*text, None),
    };
    Some(Values::Bars {
        figures: figures.clone(),
        groups,
        bars: bars.iter().map(bar).collect(),
    })
}

fn curves(what: &'static str, text: &'static str) -> Option<Values> {
    let (pairs, threads) = text.split_once(" @ ")?;
    let pair = |text: &'static str| {
        let (over, under) = text.split_once('/').unwrap_or((text, text));
        Some((series(over)?, series(under)?))
    };
    let number = |text: &str| text.parse::<u32>().ok();
    let threads = if let Some((many, few)) = threads.split_once('/') {
        vec![(number(many)?, number(few)?)]
    } else {
        let (first, last) = threads.split_once('-').unwrap_or((threads, threads));
        let range = number(first)?..=number(last)?;
        range.map(|threads| (threads, threads)).collect()
    };
    Some(Values::Curves {
        what,
        pairs: pairs.split("; ").map(pair).collect::<Option<_>>()?,
        threads,
    })
}

/// A curve: machine, controller, and bytes of a write or `reads`.
fn series(text: &'static str) -> Option<Series> {
    let words: Vec<&str> = text.split(' ').collect();
    let [machine, who, request] = words[..] else {
        return None;
    };
    let who = match who {
        "none" => Who::Baseline,
        "pats" => DEFAULT,
        "less" => LESS,
        "more" => MORE,
        _ => return None,
    };
    let (read_share, bytes) = match request {
        "reads" => (1.0, 4096),
        bytes => (0.0, bytes.parse().ok()?),
    };
    Some(Series::on(machine, who, read_share, bytes))
}
