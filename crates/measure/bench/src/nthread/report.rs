//! The whole result, and tables for people.

use std::path::PathBuf;

use serde::{Serialize, Serializer};

use super::figure::MEAN;
use super::goals::{self, Disagreement, Goal};
use super::plan::Group;
use super::program::Unit;
use super::quiet::DISTURBING;
use super::rows::{Bar, NthreadRow};
use crate::demo::MachineSummary;
use crate::experiment::{Column, table};
use egeria_stats::statistics::MIN_SETTLED;
use egeria_stats::text::{bytes, thousands};

/// Result of [`super::run`]. As JSON it is the array of its rows.
#[derive(Clone, Debug)]
pub struct NthreadReport {
    /// The machine that was emulated.
    pub machine: MachineSummary,
    /// Processor and kernel this ran on.
    pub host: String,
    /// Share of the host's CPUs that other programs used meanwhile, in [0, 1].
    pub others_share: Option<f64>,
    /// Share of the measured time for which the emulated machine's clock stood still, because its threads got no CPU of
    /// the host.
    pub stalled_share: f64,
    /// Whether figures are judged against aims.
    pub with_goals: bool,
    /// Versions of the programs.
    pub versions: Vec<String>,
    /// All figures were run.
    pub complete: bool,
    /// How often each run was made.
    pub repetitions: usize,
    /// Dilations, windows and times measured, in words.
    pub paces: Vec<String>,
    pub bars: Vec<Bar>,
    /// Runs that failed, one line each.
    pub failures: Vec<String>,
    /// Time everything took, s.
    pub seconds: f64,
    /// The page with pictures.
    pub html: Option<PathBuf>,
}

impl Serialize for NthreadReport {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.rows())
    }
}

impl NthreadReport {
    /// The rows, figure by figure.
    pub fn rows(&self) -> impl Iterator<Item = &NthreadRow> {
        self.bars.iter().map(|bar| &bar.row)
    }

    /// What is to be reached, and whether it was; nothing when figures are not judged.
    pub fn goals(&self) -> Vec<Goal> {
        if self.with_goals {
            goals::goals(&self.bars)
        } else {
            Vec::new()
        }
    }

    /// Rows that differ from the paper by more than a third; nothing when figures are not judged.
    pub fn disagreements(&self) -> Vec<Disagreement> {
        if self.with_goals {
            goals::disagreements(&self.bars)
        } else {
            Vec::new()
        }
    }

    /// A warning when repetitions differ, or a remark when others used the host.
    pub fn disturbance(&self) -> Option<String> {
        let others = self.others_share.filter(|share| *share > DISTURBING);
        let busy = others.map(|share| {
            format!(
                "other programs used {:.0} % of this host's CPUs, and the emulated machine's clock stood still for {:.0} % \
                 of the time",
                share * 100.0,
                self.stalled_share * 100.0
            )
        });
        let open = self.rows().filter(|row| row.settled == Some(false));
        let open: Vec<String> = open
            .filter(|row| row.workload != MEAN)
            .map(goals::name)
            .collect();
        let open = open.join(", ");
        let judged = self.rows().any(|row| row.settled.is_some());
        match (busy, open.is_empty(), judged) {
            (None, true, _) => None,
            (Some(busy), false, _) => Some(format!(
                "this host is too busy: {busy}; repetitions of {open} differ by more than 10 %: do not rely on them, and \
                 run it again on a quiet host"
            )),
            (None, false, _) => Some(format!(
                "repetitions of {open} differ by more than 10 %, though nothing else used this host: take their range, or \
                 more --repetitions"
            )),
            (Some(busy), true, true) => Some(format!(
                "{busy}; repetitions agree within 10 % all the same"
            )),
            (Some(busy), true, false) => Some(format!(
                "{busy}; repeat it at least three times to see how far figures vary"
            )),
        }
    }

    /// What all figures are, in a sentence or two.
    pub(crate) fn note(&self) -> String {
        format!(
            "Emulated on {}: all rates and windows are in that machine's time; {:.0} s of wall time \
             in all. Medians of {}.",
            self.machine.name,
            self.seconds,
            match self.repetitions {
                1 => "one run each".to_owned(),
                count if count < MIN_SETTLED => format!("{count} runs"),
                count => format!("{count} runs, more where they differ"),
            }
        )
    }

    /// Tables for people: rows, goals, failures, and where the page is.
    pub fn table(&self) -> String {
        let mut text = self.row_table();
        if self.with_goals {
            text += &format!("\n{}", self.goal_table());
        }
        for each in self.disagreements() {
            let (row, ours, paper) = (&each.row, each.ours, each.paper);
            text += &format!(
                "\n  {row}: {ours:.2}x nova, the paper {paper:.2}x: {}",
                each.measured
            );
        }
        for failure in &self.failures {
            text += &format!("\n  failed: {failure}");
        }
        if let Some(html) = &self.html {
            text += &format!("\nReport: {}", html.display());
        }
        text
    }

    fn row_table(&self) -> String {
        let columns: &[Column<Bar>] = &[
            ("figure", |bar| bar.row.figure.clone()),
            ("workload", |bar| bar.row.workload.clone()),
            ("threads", |bar| match bar.row.instances {
                1 => bar.row.threads.to_string(),
                count => format!("{count} x {}", bar.row.threads),
            }),
            ("config", |bar| bar.row.config.clone()),
            (">throughput", |bar| {
                throughput(bar.row.throughput, bar.unit)
            }),
            (">vs nova", |bar| times(bar.row.vs_nova)),
            (">from … to", |bar| range(&bar.row)),
            (">vs nova_n", |bar| times(bar.row.vs_nova_n)),
            (">paper", |bar| times(bar.row.paper_vs_nova)),
            (">local", |bar| percent(bar.row.local_share)),
            (">moves", |bar| {
                bar.row.moves.map_or(dash(), |moves| moves.to_string())
            }),
        ];
        table(columns, &self.bars, &self.note())
    }

    fn goal_table(&self) -> String {
        let columns: &[Column<Goal>] = &[
            ("to reach", |goal| goal.what.clone()),
            ("worst", |goal| {
                let worst = goal.worst.as_ref();
                worst.map_or(dash(), |(value, _)| format!("{value:.2}"))
            }),
            ("of", |goal| {
                let worst = goal.worst.as_ref();
                worst.map_or(String::new(), |(_, row)| row.clone())
            }),
            ("reached", |goal| verdict(goal).to_owned()),
        ];
        table(columns, &self.goals(), "")
    }
}

/// Least and largest ratio to the baseline, and whether they agree.
pub(super) fn range(row: &NthreadRow) -> String {
    let range = row.min_vs_nova.zip(row.max_vs_nova);
    range.map_or(dash(), |(min, max)| {
        let doubt = match row.settled {
            Some(false) => " differ",
            _ => "",
        };
        format!("{min:.2} … {max:.2}{doubt}")
    })
}

/// A word or two for a goal.
pub(super) fn verdict(goal: &Goal) -> &'static str {
    match goal.reached() {
        Some(true) => "yes",
        Some(false) => "NO",
        None if goal.worst.is_none() => "not run",
        None => "not settled",
    }
}

/// Times and windows of the groups, in words.
pub(super) fn paces(groups: &[Group]) -> Vec<String> {
    let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
    for group in groups {
        let pace = &group.pace;
        let line = format!(
            "one machine second takes {} s, windows are {} ms of machine time, {} ms of it are measured",
            pace.dilation,
            pace.window_ns as f64 / 1e6,
            (pace.measured.as_secs_f64() * 1e3 / pace.dilation).round(),
        );
        let line = if pace.warmup.is_zero() {
            line + " from the start"
        } else {
            let warmup_ms = pace.warmup.as_secs_f64() * 1e3 / pace.dilation;
            line + &format!(" after {warmup_ms:.0} ms of warm-up")
        };
        let name = group.figure.name();
        match lines.iter_mut().find(|(known, _)| *known == line) {
            Some((_, figures)) if figures.contains(&name) => {}
            Some((_, figures)) => figures.push(name),
            None => lines.push((line, vec![name])),
        }
    }
    let says =
        |(line, figures): (String, Vec<&str>)| format!("Fig. {}: {line}", figures.join(", "));
    lines.into_iter().map(says).collect()
}

pub(super) fn dash() -> String {
    "–".to_owned()
}

pub(super) fn throughput(value: Option<f64>, unit: Unit) -> String {
    value.map_or("failed".to_owned(), |value| match unit {
        Unit::WeightedBytes => format!("{}/s", bytes(value)),
        Unit::Operations => format!("{} op/s", thousands(value)),
    })
}

pub(super) fn times(value: Option<f64>) -> String {
    value.map_or(dash(), |value| format!("{value:.2}x"))
}

pub(super) fn percent(value: Option<f64>) -> String {
    value.map_or(dash(), |value| format!("{:.0} %", value * 100.0))
}
