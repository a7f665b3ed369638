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

use crate::alike::farthest;
use crate::code;
use crate::experiment::pats::{Controller, DEFAULT, LESS, MORE, Series};
use crate::experiment::{MIXES, PERSONALITIES};
use crate::results::Results;

const BYTES_PER_GB: f64 = 1e9;
const MACHINES: [&str; 4] = [
    "optane-1s",
    "optane-1s-2i",
    "optane-1s-3i",
    "optane-1s-dimc",
];

/// Several values become one.
#[derive(Clone, Copy)]
pub(crate) enum Combine {
    Mean,
    Least,
    Most,
    /// The ratio farthest from 1.
    Farthest,
}

pub(crate) struct Said<'a> {
    combine: Combine,
    values: Values<'a>,
}

enum Values<'a> {
    Bars {
        figures: Vec<&'a str>,
        /// `None`: the mean over those of the figure.
        groups: Option<Vec<&'a str>>,
        bars: Vec<(&'a str, Option<&'a str>)>,
    },
    Curves {
        what: &'a str,
        pairs: Vec<(Series, Series)>,
        threads: Vec<(u32, u32)>,
    },
    Code(code::Said),
}

impl<'a> Said<'a> {
    pub(crate) fn parse(text: &'a str, combine: Combine) -> Option<Said<'a>> {
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

impl Values<'_> {
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
            &self::groups(figure),
            over,
            under?,
        )?]),
        Some(["each"]) => self::groups(figure).iter().map(of).collect(),
        Some(groups) => groups.iter().map(of).collect(),
    }
}

/// The groups of a figure of NThread.
pub(crate) fn groups(figure: &str) -> Vec<&'static str> {
    match figure.as_bytes().first() {
        Some(b'5') => MIXES.map(|(name, _)| name).to_vec(),
        Some(b'6') => PERSONALITIES.to_vec(),
        _ => vec!["W", "R", "RW"],
    }
}

fn bars<'a>(text: &'a str) -> Option<Values<'a>> {
    let list = |text: &'a str| text.split("; ").collect::<Vec<_>>();
    let fields: Vec<Vec<&str>> = text.split(" | ").map(list).collect();
    let (figures, groups, bars) = match &fields[..] {
        [figures, bars] => (figures, None, bars),
        [figures, groups, bars] => (figures, Some(groups.clone()), bars),
        _ => return None,
    };
    let bar = |text: &&'a str| match text.split_once('/') {
        Some((over, under)) => (over, Some(under)),
        None => (*text, None),
    };
    Some(Values::Bars {
        figures: figures.clone(),
        groups,
        bars: bars.iter().map(bar).collect(),
    })
}

fn curves<'a>(what: &'a str, text: &str) -> Option<Values<'a>> {
    let (pairs, threads) = text.split_once(" @ ")?;
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

/// The points of a curve, as `data/figures.toml` describes it.
pub(crate) fn curve(text: &str, results: &Results) -> Option<Vec<(f64, f64)>> {
    let (what, rest) = text.split_once(' ')?;
    if matches!(what, "copy" | "persistent") {
        return curve_of_pats(what, rest, results);
    }
    let (figure, scale) = match text.strip_prefix("GB/s ") {
        Some(figure) => (figure, BYTES_PER_GB),
        None => (text, 1.0),
    };
    let (figure, name) = figure.split_once(" | ")?;
    let points = results.curve(figure, name)?.iter();
    Some(points.map(|(x, y)| (*x, y / scale)).collect())
}

fn curve_of_pats(what: &str, text: &str, results: &Results) -> Option<Vec<(f64, f64)>> {
    if let Some((own, first)) = text.split_once(" @ ") {
        let values = series(own)?.curve(results, what)?;
        let first: f64 = first.parse().ok()?;
        let base = values.iter().find(|(x, _)| *x == first)?.1;
        let scaled = values.iter().filter(|(x, _)| *x >= first);
        return Some(scaled.map(|(x, y)| (*x, y / base)).collect());
    }
    let (over, under) = pair(text)?;
    let values = over.curve(results, what)?.iter();
    let bases: Vec<f64> = if text.contains('/') {
        under
            .curve(results, what)?
            .iter()
            .map(|(_, y)| *y)
            .collect()
    } else {
        vec![BYTES_PER_GB; values.len()]
    };
    let both = values.zip(bases).filter(|((x, _), _)| *x > 0.0);
    Some(both.map(|((x, y), base)| (*x, y / base)).collect())
}

/// One curve over another; one alone is over itself.
fn pair(text: &str) -> Option<(Series, Series)> {
    let (over, under) = text.split_once('/').unwrap_or((text, text));
    Some((series(over)?, series(under)?))
}

/// A curve: machine, controller, and bytes of a write or `reads`.
fn series(text: &str) -> Option<Series> {
    let words: Vec<&str> = text.split(' ').collect();
    let [machine, controller, request] = words[..] else {
        return None;
    };
    let machine = MACHINES.into_iter().find(|each| *each == machine)?;
    let controller = match controller {
        "none" => Controller::Baseline,
        "pats" => DEFAULT,
        "less" => LESS,
        "more" => MORE,
        _ => return None,
    };
    let (read_share, bytes) = match request {
        "reads" => (1.0, 4096),
        bytes => (0.0, bytes.parse().ok()?),
    };
    Some(Series::on(machine, controller, read_share, bytes))
}
