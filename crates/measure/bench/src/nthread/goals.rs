//! What is to be reached, and whether it was.

use super::figure::Figure;
use super::figure::MEAN;
use super::paper;
use super::rows::{self, Bar, NthreadRow};
use egeria_stats::statistics::{is_settled, median};

/// The bars that `full` must not fall behind.
const OTHERS: [&str; 5] = ["nova", "nova_n", "rl", "cpu", "nm"];

/// One thing to reach.
#[derive(Clone, PartialEq, Debug)]
pub struct Goal {
    pub what: String,
    pub bound: f64,
    /// Whether the value must be at most, not at least, the bound.
    pub at_most: bool,
    /// The worst value, and the row it is of; `None` when no such row was run.
    pub worst: Option<(f64, String)>,
    /// Whether all values it is of have settled: else it is not judged.
    pub settled: bool,
}

impl Goal {
    /// Whether it was; `None` when nothing was measured, or not surely enough.
    pub fn reached(&self) -> Option<bool> {
        let (value, _) = self.worst.as_ref().filter(|_| self.settled)?;
        Some(if self.at_most {
            *value <= self.bound
        } else {
            *value >= self.bound
        })
    }
}

/// A difference from the paper by more than a third.
#[derive(Clone, PartialEq, Debug)]
pub struct Disagreement {
    pub row: String,
    pub ours: f64,
    pub paper: f64,
    /// What was measured of the row, in words. It names no cause.
    pub measured: String,
}

/// All goals, judged on these bars.
pub(super) fn goals(bars: &[Bar]) -> Vec<Goal> {
    use Figure::*;
    let mut goals = vec![never_behind(bars)];
    let mut add = |what: &str, figure, workloads: &[&str], bounds: &[(&str, f64)]| {
        goals.extend(bounds.iter().map(|(other, bound)| {
            let at_least = format!("{what}: full at least {bound:.2}x {other}");
            against(bars, at_least, (figure, workloads), other, *bound)
        }));
    };
    let mixed = ["rw80", "rw60", "rw40", "rw20"];
    let four = "fio rw80 and rw60, 4 threads";
    add(four, FiveA, &mixed[..2], &[("nova", 1.4), ("rl", 1.1)]);
    let eight = "fio mixed, 8 threads";
    add(eight, FiveB, &mixed, &[("nova", 1.9), ("nova_n", 1.3)]);
    add("db_bench R, one instance", SevenA, &["R"], &[("nova", 1.4)]);
    add(
        "db_bench RW, one instance",
        SevenA,
        &["RW"],
        &[("nova", 1.2)],
    );
    let both = "db_bench R and RW, one instance";
    add(both, SevenA, &["R", "RW"], &[("nova_n", 1.1)]);
    let two = "db_bench, two instances, mean";
    add(two, SevenB, &[MEAN], &[("nova", 1.3), ("nova_n", 1.3)]);
    let web = ["webserver", "webproxy"];
    add(
        "filebench webserver and webproxy",
        SixA,
        &web,
        &[("nm", 1.1)],
    );
    goals.push(no_ping_pong(bars));
    goals
}

/// A row in words.
pub(super) fn name(row: &NthreadRow) -> String {
    format!("Fig. {} {} {}", row.figure, row.workload, row.config)
}

/// A ratio, of which row, and whether it has settled.
struct Ratio {
    value: f64,
    row: String,
    settled: bool,
}

/// `full` against another bar of the same chart.
fn ratio(bars: &[Bar], full: &Bar, other: &str) -> Option<Ratio> {
    let of = |value: f64, settled: bool| Ratio {
        value,
        row: format!("{} against {other}", name(&full.row)),
        settled,
    };
    if full.row.workload == MEAN {
        // The mean of ratios.
        let value = match other {
            "nova" => full.row.vs_nova,
            _ => full.row.vs_nova_n,
        };
        return Some(of(value?, full.row.settled == Some(true)));
    }
    let ratios = rows::ratios(bars, full, other);
    let settled = is_settled(&ratios, rows::TOLERANCE) == Some(true);
    Some(of(median(&ratios)?, settled))
}

fn fulls(bars: &[Bar]) -> impl Iterator<Item = &Bar> {
    bars.iter().filter(|bar| bar.row.config == "full")
}

fn least(what: String, bound: f64, ratios: impl Iterator<Item = Ratio>) -> Goal {
    let mut goal = Goal {
        what,
        bound,
        at_most: false,
        worst: None,
        settled: true,
    };
    for ratio in ratios {
        goal.settled &= ratio.settled;
        let is_worse = |(worst, _): &(f64, String)| ratio.value < *worst;
        if goal.worst.as_ref().is_none_or(is_worse) {
            goal.worst = Some((ratio.value, ratio.row));
        }
    }
    goal
}

fn never_behind(bars: &[Bar]) -> Goal {
    let single = fulls(bars).filter(|full| full.row.workload != MEAN);
    let ratios = single.flat_map(|full| OTHERS.iter().filter_map(|other| ratio(bars, full, other)));
    let what = "full never below 0.97x of any other bar".to_owned();
    least(what, 0.97, ratios)
}

fn against(
    bars: &[Bar],
    what: String,
    (figure, workloads): (Figure, &[&str]),
    other: &str,
    bound: f64,
) -> Goal {
    let is_meant =
        |bar: &&Bar| bar.figure == figure && workloads.contains(&bar.row.workload.as_str());
    let ratios = fulls(bars).filter(is_meant);
    least(
        what,
        bound,
        ratios.filter_map(|full| ratio(bars, full, other)),
    )
}

fn no_ping_pong(bars: &[Bar]) -> Goal {
    let moves = fulls(bars).filter(|bar| bar.row.workload != MEAN && bar.row.throughput.is_some());
    let most = moves.map(|bar| (bar.moves_of_one_thread as f64, name(&bar.row)));
    Goal {
        what: "no ping-pong: once at rest, full moves no thread more than once".to_owned(),
        bound: 1.0,
        at_most: true,
        worst: most.reduce(|one, other| if other.0 > one.0 { other } else { one }),
        settled: true,
    }
}

/// Rows that differ from the paper by more than a third.
pub(super) fn disagreements(bars: &[Bar]) -> Vec<Disagreement> {
    let differs = |bar: &Bar| {
        let (ours, paper) = bar.row.vs_nova.zip(bar.row.paper_vs_nova)?;
        ((ours / paper - 1.0).abs() > paper::TOLERANCE).then(|| Disagreement {
            row: name(&bar.row),
            ours,
            paper,
            measured: measured(bars, bar),
        })
    };
    bars.iter().filter_map(differs).collect()
}

/// Moves, local bytes and spread of a row, with its baseline's where there is one.
fn measured(bars: &[Bar], bar: &Bar) -> String {
    let row = &bar.row;
    let mut said = Vec::new();
    if let Some(moves) = row.moves {
        let plural = if moves == 1 { "" } else { "s" };
        said.push(format!("{moves} move{plural} of threads"));
    }
    if let Some(local) = row.local_share {
        let is_baseline = |other: &&Bar| {
            let of_row = (other.figure, &other.row.workload) == (bar.figure, &row.workload);
            of_row && other.row.config == "nova"
        };
        let baseline = bars.iter().find(is_baseline);
        let baseline = baseline.and_then(|nova| nova.row.local_share);
        let than = baseline.map_or(String::new(), |nova| {
            format!(" (nova {:.0} %)", nova * 100.0)
        });
        said.push(format!("{:.0} % of bytes local{than}", local * 100.0));
    }
    if let Some((least, most)) = row.min_vs_nova.zip(row.max_vs_nova) {
        said.push(format!("repetitions {least:.2}x to {most:.2}x"));
    }
    if row.settled == Some(false) {
        said.push("they differ too much: run it again on a quiet host".to_owned());
    }
    said.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nthread::program::Unit;

    fn bar(figure: Figure, workload: &str, config: &str, throughput: f64) -> Bar {
        Bar {
            figure,
            unit: Unit::Operations,
            row: NthreadRow {
                figure: figure.name().to_owned(),
                workload: workload.to_owned(),
                threads: 4,
                instances: 1,
                config: config.to_owned(),
                throughput: Some(throughput),
                vs_nova: Some(throughput),
                min_vs_nova: None,
                max_vs_nova: None,
                repetitions: 3,
                settled: Some(true),
                vs_nova_n: None,
                paper_vs_nova: paper::vs_nova(figure, workload, config),
                local_share: None,
                moves: Some(0),
            },
            runs: vec![Some(throughput); 3],
            moves_of_one_thread: 0,
            series: Vec::new(),
        }
    }

    fn goal<'a>(goals: &'a [Goal], words: &str) -> &'a Goal {
        goals.iter().find(|goal| goal.what.contains(words)).unwrap()
    }

    #[test]
    fn goals_take_the_worst_row_and_say_nothing_of_rows_not_run() {
        let mut bars = vec![
            bar(Figure::FiveA, "rw80", "nova", 1.0),
            bar(Figure::FiveA, "rw80", "full", 1.5),
            bar(Figure::FiveA, "rw60", "nova", 1.0),
            bar(Figure::FiveA, "rw60", "full", 1.3),
        ];
        bars[3].moves_of_one_thread = 2;
        let goals = goals(&bars);
        let behind = goal(&goals, "never below");
        assert_eq!(behind.reached(), Some(true));
        let fio = goal(&goals, "4 threads: full at least 1.40x nova");
        assert_eq!(fio.reached(), Some(false));
        let (_, worst) = fio.worst.as_ref().unwrap();
        assert_eq!(worst, "Fig. 5a rw60 full against nova");
        assert_eq!(goal(&goals, "1.10x rl").reached(), None);
        assert_eq!(goal(&goals, "ping-pong").reached(), Some(false));
    }

    #[test]
    fn ratios_that_have_not_settled_are_not_judged() {
        let mut bars = vec![
            bar(Figure::FiveA, "rw80", "nova", 1.0),
            bar(Figure::FiveA, "rw80", "full", 1.5),
        ];
        bars[1].runs = vec![Some(1.5), Some(1.6), Some(0.5)];
        let fio = |bars: &[Bar]| goal(&goals(bars), "at least 1.40x nova").clone();
        assert_eq!((fio(&bars).reached(), fio(&bars).settled), (None, false));
        bars[1].runs = vec![Some(1.5); 2];
        assert_eq!(fio(&bars).reached(), None, "too few repetitions");
        bars[1].runs = vec![Some(1.5); 4];
        assert_eq!(fio(&bars).reached(), Some(true));
    }

    #[test]
    fn differences_beyond_a_third_say_what_was_measured() {
        let mut bars = [
            bar(Figure::SevenA, "R", "full", 1.02),
            bar(Figure::SevenA, "R", "full", 0.99),
            bar(Figure::SevenA, "R", "nova", 9.0),
        ];
        let found = disagreements(&bars);
        assert_eq!(found.len(), 1);
        assert!(found[0].ours < 1.0);
        assert_eq!(found[0].measured, "0 moves of threads");
        let row = &mut bars[1].row;
        (row.settled, row.moves, row.local_share) = (Some(false), Some(1), Some(0.75));
        (row.min_vs_nova, row.max_vs_nova) = (Some(0.5), Some(1.5));
        bars[2].row.local_share = Some(0.5);
        assert_eq!(
            disagreements(&bars)[0].measured,
            "1 move of threads, 75 % of bytes local (nova 50 %), repetitions 0.50x to 1.50x, \
             they differ too much: run it again on a quiet host"
        );
    }
}
