//! Rows: medians of repetitions, compared with the baselines and the paper.

use std::collections::BTreeMap;

use serde::Serialize;

use super::figure::{Figure, MEAN};
use super::paper;
use super::plan::Group;
use super::program::{Program, Unit};
use super::sample::Moment;
use super::stage::Measurement;
use egeria_stats::statistics::{is_settled, median};

/// Weights of a byte read that Fig. 9 compares.
const WEIGHTS: [(&str, f64); 4] = [
    ("weight_1", 1.0),
    ("weight_1/2", 0.5),
    ("weight_1/3", 1.0 / 3.0),
    ("weight_1/4", 0.25),
];

/// One row, as `--json` prints it. Throughput is in machine time.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct NthreadRow {
    /// Figure of the paper.
    pub figure: String,
    pub workload: String,
    /// Threads of each instance.
    pub threads: u32,
    /// Programs that ran at once.
    pub instances: u32,
    pub config: String,
    /// fio: bytes/s, reads weighted (NThread Eq. 1); others: operations/s. `None`: no run succeeded.
    pub throughput: Option<f64>,
    /// Times the figure's baseline: `nova`; in Fig. 4 `crowded`, in Fig. 8 `limit_100`. Runs of one repetition are
    /// compared with each other; this is the median of their ratios.
    pub vs_nova: Option<f64>,
    /// Least of these ratios.
    pub min_vs_nova: Option<f64>,
    /// Largest of these ratios.
    pub max_vs_nova: Option<f64>,
    /// How many there are.
    pub repetitions: usize,
    /// Whether three quarters of them are within 10 % of their median; `None` with fewer than three.
    pub settled: Option<bool>,
    /// Times `nova_n`, where the figure has it.
    pub vs_nova_n: Option<f64>,
    /// What the paper says `vs_nova` is.
    pub paper_vs_nova: Option<f64>,
    /// Share of bytes read and written on the thread's own node, in [0, 1].
    pub local_share: Option<f64>,
    /// Threads moved, each time counted.
    pub moves: Option<u64>,
}

/// A row with what only the page shows.
#[derive(Clone, PartialEq, Debug)]
pub struct Bar {
    pub figure: Figure,
    /// What its throughput counts.
    pub unit: Unit,
    pub row: NthreadRow,
    /// Throughput of each repetition; `None` where it failed.
    pub runs: Vec<Option<f64>>,
    /// Moves of the thread that moved most after warm-up (and the first three windows), in any repetition.
    pub moves_of_one_thread: u64,
    /// Bandwidth of the nodes over time, of the last repetition.
    pub series: Vec<Moment>,
}

/// Ratios of repetitions within this share of their median agree.
pub(super) const TOLERANCE: f64 = 0.1;

/// The result of one program of one group.
pub(super) struct Finding<'a> {
    pub(super) repetition: usize,
    pub(super) group: &'a Group,
    pub(super) program: Program,
    pub(super) measurement: Option<Measurement>,
}

/// Makes rows of findings, in the order of the plan.
pub(super) fn bars(findings: &[Finding<'_>]) -> Vec<Bar> {
    let mut order: Vec<Key> = Vec::new();
    let mut samples: BTreeMap<usize, Vec<&Finding<'_>>> = BTreeMap::new();
    for finding in findings {
        for key in keys(finding) {
            let place = order.iter().position(|known| *known == key);
            let place = place.unwrap_or_else(|| {
                order.push(key);
                order.len() - 1
            });
            samples.entry(place).or_default().push(finding);
        }
    }
    let mut bars: Vec<Bar> = order
        .iter()
        .zip(samples.values())
        .map(|(key, findings)| bar(key, findings))
        .collect();
    compare(&mut bars);
    let means = means(&bars);
    bars.extend(means);
    in_order(&mut bars);
    bars
}

/// Figure by figure, and there chart by chart, where programs of one group alternate.
fn in_order(bars: &mut [Bar]) {
    let chart = |bar: &Bar| (bar.figure, bar.row.workload.clone(), bar.row.threads);
    let mut charts = Vec::new();
    for bar in bars.iter() {
        if !charts.contains(&chart(bar)) {
            charts.push(chart(bar));
        }
    }
    let place = |bar: &Bar| charts.iter().position(|known| *known == chart(bar));
    bars.sort_by_key(|bar| (bar.figure, place(bar)));
}

/// What makes a row one's own, and in Fig. 9 the weight.
#[derive(Clone, PartialEq)]
struct Key {
    figure: Figure,
    program: Program,
    threads: u32,
    instances: u32,
    config: &'static str,
    weight: Option<f64>,
}

fn keys(finding: &Finding<'_>) -> Vec<Key> {
    let group = finding.group;
    let key = |config, weight| Key {
        figure: group.figure,
        program: finding.program,
        threads: group.threads,
        instances: group.instances,
        config,
        weight,
    };
    match group.figure {
        Figure::Nine => WEIGHTS
            .map(|(name, weight)| key(name, Some(weight)))
            .to_vec(),
        _ => vec![key(group.setup.name, None)],
    }
}

fn bar(key: &Key, findings: &[&Finding<'_>]) -> Bar {
    let done = || {
        findings
            .iter()
            .filter_map(|finding| finding.measurement.as_ref())
    };
    let throughput = |measurement: &Measurement| match key.weight {
        Some(weight) => measurement.given.weighted_bytes_s(weight),
        None => key.program.throughput(measurement.given),
    };
    let throughputs: Vec<f64> = done().map(throughput).collect();
    let repetitions = findings.iter().map(|finding| finding.repetition + 1);
    let mut runs = vec![None; repetitions.max().unwrap_or(0)];
    for finding in findings {
        runs[finding.repetition] = finding.measurement.as_ref().map(throughput);
    }
    let shares: Vec<f64> = done().filter_map(|each| each.local_share).collect();
    let moves: Vec<f64> = done().map(|each| each.moves.all as f64).collect();
    let workload = key.program.workload();
    Bar {
        figure: key.figure,
        unit: key.program.unit(),
        row: NthreadRow {
            figure: key.figure.name().to_owned(),
            paper_vs_nova: paper::vs_nova(key.figure, &workload, key.config),
            workload,
            threads: key.threads,
            instances: key.instances,
            config: key.config.to_owned(),
            throughput: median(&throughputs),
            vs_nova: None,
            min_vs_nova: None,
            max_vs_nova: None,
            repetitions: throughputs.len(),
            settled: None,
            vs_nova_n: None,
            local_share: median(&shares),
            moves: median(&moves).map(|moves| moves.round() as u64),
        },
        runs,
        moves_of_one_thread: done()
            .map(|each| each.moves.of_one_thread)
            .max()
            .unwrap_or(0),
        series: done()
            .next_back()
            .map(|each| each.series.clone())
            .unwrap_or_default(),
    }
}

/// Fills in the ratios to the baselines of the same chart.
fn compare(bars: &mut [Bar]) {
    let known = bars.to_vec();
    for bar in bars {
        let to_nova = ratios(&known, bar, bar.figure.baseline());
        let row = &mut bar.row;
        row.vs_nova = median(&to_nova);
        row.min_vs_nova = to_nova.iter().copied().reduce(f64::min);
        row.max_vs_nova = to_nova.iter().copied().reduce(f64::max);
        row.settled = is_settled(&to_nova, TOLERANCE);
        bar.row.vs_nova_n = median(&ratios(&known, bar, "nova_n"));
    }
}

/// Ratios of a bar to another of the same chart, repetition by repetition: runs that follow one another meet the
/// same disturbances.
pub(super) fn ratios(bars: &[Bar], bar: &Bar, other: &str) -> Vec<f64> {
    let is_meant = |each: &&Bar| {
        each.figure == bar.figure
            && each.row.config == other
            && each.row.workload == bar.row.workload
            && each.row.threads == bar.row.threads
    };
    let base = bars.iter().find(is_meant);
    let pairs = base
        .into_iter()
        .flat_map(|base| bar.runs.iter().zip(&base.runs));
    let ratios = pairs.filter_map(|(own, base)| Some((*own)? / (*base)?));
    ratios.filter(|ratio| ratio.is_finite()).collect()
}

/// Charts (figure, workload and threads) with a ratio that has not settled.
pub(super) fn unsettled(bars: &[Bar]) -> Vec<(Figure, String, u32)> {
    let open = bars.iter().filter(|bar| bar.row.settled == Some(false));
    let mut charts: Vec<_> = open
        .map(|bar| (bar.figure, bar.row.workload.clone(), bar.row.threads))
        .collect();
    charts.dedup();
    charts
}

/// Per figure and bar, the mean over the workloads: of ratios, as the paper gives it.
fn means(bars: &[Bar]) -> Vec<Bar> {
    let mut means: Vec<Bar> = Vec::new();
    for figure in Figure::ALL.into_iter().filter(|figure| figure.has_mean()) {
        let of_figure: Vec<&Bar> = bars.iter().filter(|bar| bar.figure == figure).collect();
        let mut configs: Vec<&str> = Vec::new();
        for bar in &of_figure {
            if !configs.contains(&bar.row.config.as_str()) {
                configs.push(&bar.row.config);
            }
        }
        for config in configs {
            let all: Vec<&Bar> = of_figure
                .iter()
                .copied()
                .filter(|bar| bar.row.config == config)
                .collect();
            if all.len() > 1 {
                means.push(mean_of(&all));
            }
        }
    }
    means
}

fn mean_of(all: &[&Bar]) -> Bar {
    let first = all[0];
    let mean = |value: fn(&NthreadRow) -> Option<f64>| {
        let values: Option<Vec<f64>> = all.iter().map(|bar| value(&bar.row)).collect();
        values.map(|values| values.iter().sum::<f64>() / values.len() as f64)
    };
    Bar {
        row: NthreadRow {
            workload: MEAN.to_owned(),
            throughput: mean(|row| row.throughput),
            vs_nova: mean(|row| row.vs_nova),
            min_vs_nova: None,
            max_vs_nova: None,
            // As its workloads.
            settled: all
                .iter()
                .map(|bar| bar.row.settled)
                .reduce(|one, other| Some(one? && other?))
                .flatten(),
            vs_nova_n: mean(|row| row.vs_nova_n),
            paper_vs_nova: paper::vs_nova(first.figure, MEAN, &first.row.config),
            local_share: mean(|row| row.local_share),
            moves: mean(|row| row.moves.map(|moves| moves as f64))
                .map(|moves| moves.round() as u64),
            ..first.row.clone()
        },
        runs: Vec::new(),
        moves_of_one_thread: all
            .iter()
            .map(|bar| bar.moves_of_one_thread)
            .max()
            .unwrap_or(0),
        series: Vec::new(),
        ..first.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nthread::plan::{Extent, groups};
    use crate::programs::Yield;

    fn measurement(operations_s: f64) -> Option<Measurement> {
        Some(Measurement {
            given: Yield {
                operations_s,
                read_bytes_s: operations_s * 3.0,
                written_bytes_s: operations_s,
            },
            local_share: Some(0.5),
            ..Measurement::default()
        })
    }

    fn findings<'a>(
        groups: &'a [Group],
        given: impl Fn(&Group, usize) -> Option<Measurement>,
    ) -> Vec<Finding<'a>> {
        let mut all = Vec::new();
        for repetition in 0..3 {
            for group in groups {
                all.extend(group.programs.iter().map(|program| Finding {
                    repetition,
                    group,
                    program: *program,
                    measurement: given(group, repetition),
                }));
            }
        }
        all
    }

    fn find<'a>(bars: &'a [Bar], workload: &str, config: &str) -> &'a NthreadRow {
        let row = |bar: &&Bar| bar.row.workload == workload && bar.row.config == config;
        &bars.iter().find(row).unwrap().row
    }

    #[test]
    fn rows_are_medians_and_ratios_of_medians() {
        let groups = groups(Extent::Full, &[Figure::SevenA]);
        let speed = |group: &Group, repetition: usize| {
            let base = match group.setup.name {
                "nova" => 100.0,
                "nova_n" => 125.0,
                _ => 150.0,
            };
            measurement(base + [0.0, 1000.0, -50.0][repetition])
        };
        let bars = bars(&findings(&groups, speed));
        let full = find(&bars, "R", "full");
        assert_eq!(full.throughput, Some(150.0));
        assert_eq!((full.vs_nova, full.vs_nova_n), (Some(1.5), Some(1.2)));
        assert_eq!(full.paper_vs_nova, Some(1.504));
        assert_eq!(find(&bars, "W", "nova").vs_nova, Some(1.0));
        let mean = find(&bars, MEAN, "full");
        assert_eq!((mean.vs_nova, mean.moves), (Some(1.5), Some(0)));
        assert_eq!(bars.len(), 18 + 6);
        let workloads: Vec<&str> = bars.iter().map(|bar| bar.row.workload.as_str()).collect();
        let charts: Vec<&str> = workloads
            .chunk_by(|a, b| a == b)
            .map(|each| each[0])
            .collect();
        assert_eq!(charts, ["W", "R", "RW", MEAN]);
    }

    #[test]
    fn ratios_pair_the_runs_of_a_repetition() {
        let groups = groups(Extent::Full, &[Figure::SevenA]);
        // A disturbance halves everything in the second repetition; full is twice as fast, but not in the third.
        let speed = |group: &Group, repetition: usize| {
            let host = [1.0, 0.5, 1.0][repetition];
            let full = [2.0, 2.0, 1.0][repetition];
            measurement(
                host * if group.setup.name == "full" {
                    full
                } else {
                    1.0
                },
            )
        };
        let bars = bars(&findings(&groups, speed));
        let full = find(&bars, "R", "full");
        let range = (full.min_vs_nova, full.max_vs_nova);
        assert_eq!((full.vs_nova, range), (Some(2.0), (Some(1.0), Some(2.0))));
        assert_eq!((full.repetitions, full.settled), (3, Some(false)));
        assert_eq!(find(&bars, "R", "nova_n").settled, Some(true));
        assert_eq!(find(&bars, MEAN, "full").settled, Some(false));
        let open = unsettled(&bars);
        assert!(
            open.contains(&(Figure::SevenA, "R".to_owned(), 4)),
            "{open:?}"
        );
    }

    #[test]
    fn a_bar_that_failed_stays_as_a_row_without_figures() {
        let groups = groups(Extent::Full, &[Figure::FiveA]);
        let fails = |group: &Group, _| match group.setup.name {
            "nova" => None,
            _ => measurement(10.0),
        };
        let bars = bars(&findings(&groups, fails));
        assert_eq!(find(&bars, "rw80", "nova").throughput, None);
        let full = find(&bars, "rw80", "full");
        assert_eq!((full.vs_nova, full.vs_nova_n), (None, Some(1.0)));
        assert_eq!(find(&bars, MEAN, "full").vs_nova, None);
    }

    #[test]
    fn figure_9_has_a_row_for_each_weight_of_one_run() {
        let groups = groups(Extent::Full, &[Figure::Nine]);
        let bars = bars(&findings(&groups, |_, _| measurement(10.0)));
        assert_eq!(bars.len(), 6 * 4);
        let of = |config| find(&bars, "rw80", config).throughput.unwrap();
        assert!((of("weight_1") - 40.0).abs() < 1e-9);
        assert!((of("weight_1/3") - 20.0).abs() < 1e-9);
    }

    #[test]
    fn figures_4_and_8_have_their_own_baselines() {
        for figure in [Figure::Four, Figure::Eight] {
            let groups = groups(Extent::Full, &[figure]);
            let bars = bars(&findings(&groups, |_, _| measurement(10.0)));
            assert!(bars.iter().all(|bar| bar.row.vs_nova == Some(1.0)));
        }
    }
}
