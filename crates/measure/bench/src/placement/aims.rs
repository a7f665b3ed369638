//! What is wanted of Egeria in these cases, and which of them miss it.

use egeria_stats::aims::Aim;
use serde::Serialize;

use super::raw::Kind;
use super::row::Row;

/// Between equal shares there may be so much.
const NEAR: f64 = 0.03;
/// Egeria may make a share less by this much, compared with nothing.
const WORSE: f64 = 0.02;
/// Windows of a second after which nothing should move.
const REST_S: f64 = 10.0;
const PEERS: [&str; 4] = ["nothing", "balancing", "numad", "interleave"];
/// Cases that a whole run has at least.
const MIN_FAULTS: usize = 24;
const MIN_CONTROLS: usize = 10;

/// An aim over all cases, and the cases that miss it, with their figures.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Judged {
    #[serde(flatten)]
    pub aim: Aim,
    pub cases: usize,
    pub missed: Vec<String>,
}

/// One case: its rows by system.
pub(super) struct Case<'a> {
    pub name: &'a str,
    pub rows: Vec<&'a Row>,
}

impl<'a> Case<'a> {
    pub fn of(&self, system: &str) -> Option<&'a Row> {
        self.rows.iter().copied().find(|row| row.system == system)
    }

    fn kind(&self) -> Kind {
        self.rows[0].kind
    }

    fn egeria(&self) -> Option<&'a Row> {
        self.of("egeria")
    }

    /// The highest share of a peer.
    fn best_peer(&self) -> Option<f64> {
        let peers = PEERS.iter().filter_map(|system| self.of(system));
        peers.filter_map(|row| row.local_share).reduce(f64::max)
    }
}

/// The cases in the order of their first rows.
pub(super) fn cases(rows: &[Row]) -> Vec<Case<'_>> {
    let mut cases: Vec<Case<'_>> = Vec::new();
    for row in rows {
        match cases.iter_mut().find(|case| case.name == row.fault) {
            Some(case) => case.rows.push(row),
            None => cases.push(Case {
                name: &row.fault,
                rows: vec![row],
            }),
        }
    }
    cases
}

/// The aims, each over the cases that say something of it.
pub fn judge(rows: &[Row]) -> Vec<Judged> {
    let cases = cases(rows);
    let of = |kind: Kind| cases.iter().filter(move |case| case.kind() == kind);
    let faults = || of(Kind::Fault);
    let controls = || of(Kind::Control);
    let how_many = |what: &'static str, count: usize, least: usize| {
        let aim = Aim::at_least(what, 1.0, count as f64 / least as f64);
        let missed = (!aim.met).then(|| format!("{count} of {least}"));
        let missed = missed.into_iter().collect();
        let cases = count;
        Judged { aim, cases, missed }
    };
    vec![
        all(
            "faults in which the local share is at least the best peer's, but for 3 points",
            1.0,
            faults(),
            behind_peer,
        ),
        all(
            "faults that come right as fast as the best peer does it",
            0.75,
            faults(),
            later_than_peer,
        ),
        all(
            "cases in which the local share is no less than with nothing, but for 2 points",
            1.0,
            cases.iter(),
            worse_than_nothing,
        ),
        all(
            "faults in which nothing moves after ten windows",
            1.0,
            faults(),
            restless,
        ),
        all(
            "controls in which nothing moves",
            1.0,
            controls(),
            moved_in_control,
        ),
        all(
            "cases in which both leave a share of at least the kernel's balancing alone, but for 3 points",
            1.0,
            cases.iter(),
            both_behind_balancing,
        ),
        how_many("faults, of those wanted", faults().count(), MIN_FAULTS),
        how_many(
            "controls, of those wanted",
            controls().count(),
            MIN_CONTROLS,
        ),
    ]
}

/// Of cases: `None` where a case says nothing of the aim, else what is missed, if anything.
fn all<'a>(
    what: &'static str,
    aim: f64,
    cases: impl Iterator<Item = &'a Case<'a>>,
    misses: fn(&Case<'_>) -> Option<Result<(), String>>,
) -> Judged {
    let judged: Vec<Result<(), String>> = cases
        .filter_map(|case| Some(misses(case)?.map_err(|why| format!("{} ({why})", case.name))))
        .collect();
    let count = judged.len();
    let missed: Vec<String> = judged.into_iter().filter_map(Result::err).collect();
    let figure = (count - missed.len()) as f64 / count.max(1) as f64;
    Judged {
        aim: Aim::at_least(what, aim, figure),
        cases: count,
        missed,
    }
}

fn met_or(is_met: bool, why: impl FnOnce() -> String) -> Result<(), String> {
    if is_met { Ok(()) } else { Err(why()) }
}

fn percent(share: f64) -> String {
    format!("{:.0}", share * 100.0)
}

fn behind_peer(case: &Case<'_>) -> Option<Result<(), String>> {
    let (own, best) = (case.egeria()?.local_share?, case.best_peer()?);
    let why = || format!("{} %, a peer {} %", percent(own), percent(best));
    Some(met_or(own >= best - NEAR, why))
}

fn later_than_peer(case: &Case<'_>) -> Option<Result<(), String>> {
    let own = case.egeria()?;
    let (share, best) = (own.local_share?, case.best_peer()?);
    let is_best = |row: &&Row| row.local_share.is_some_and(|share| share >= best - NEAR);
    let peers = PEERS.iter().filter_map(|system| case.of(system));
    let quickest = peers
        .filter(is_best)
        .filter_map(|row| row.settled_s)
        .reduce(f64::min)?;
    let own_s = own.settled_s?;
    let is_met = share > best + NEAR || (share >= best - NEAR && own_s <= quickest);
    let why = || {
        format!(
            "{own_s:.1} s at {} %, a peer {quickest:.1} s",
            percent(share)
        )
    };
    Some(met_or(is_met, why))
}

fn worse_than_nothing(case: &Case<'_>) -> Option<Result<(), String>> {
    let own = case.egeria()?.local_share?;
    let nothing = case.of("nothing")?.local_share?;
    let why = || format!("{} %, nothing {} %", percent(own), percent(nothing));
    Some(met_or(own >= nothing - WORSE, why))
}

/// With the kernel's balancing on, as most machines have it, Egeria must not work against that.
fn both_behind_balancing(case: &Case<'_>) -> Option<Result<(), String>> {
    let both = case.of("both")?.local_share?;
    let alone = case.of("balancing")?.local_share?;
    let why = || format!("{} %, balancing alone {} %", percent(both), percent(alone));
    Some(met_or(both >= alone - NEAR, why))
}

fn restless(case: &Case<'_>) -> Option<Result<(), String>> {
    let own = case.egeria()?;
    let why = || format!("{:.1} s", own.rest_s);
    Some(met_or(own.rest_s <= REST_S, why))
}

fn moved_in_control(case: &Case<'_>) -> Option<Result<(), String>> {
    let own = case.egeria()?;
    let why = || format!("{} pages, {} masks", own.pages_moved, own.masks_changed);
    Some(met_or(own.pages_moved + own.masks_changed == 0, why))
}
