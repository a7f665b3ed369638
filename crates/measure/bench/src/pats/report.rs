//! The figures, as JSON, as a table and as a page.

use std::collections::BTreeSet;

use egeria_report::chart::Bar;
use maud::Markup;
use serde::Serialize;

use super::gate::Gate;
use super::plan::{Control, DramLoad, Found, NOT_REPRODUCED, Point};
use crate::colors;
use crate::experiment::{Column, group, over, page_of, picture, table};

/// One point of a figure: medians over the rounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PatsRow {
    /// Numbers of the paper's figures that have this point, `ours` for none; with comma and space between. Empty for a
    /// program on DRAM alone.
    pub figure: String,
    /// The machine's profile.
    pub machine: String,
    /// `none`, `formula` or `learned`.
    pub control: String,
    /// PATS's tolerated loss (`T_mc`).
    pub tolerated_loss: f64,
    /// Threads of fio on persistent memory.
    pub threads: usize,
    /// Bytes of their requests.
    pub request_bytes: u64,
    /// Share of these that reads.
    pub read_share: f64,
    /// `copy`, `get_set` or `latency`.
    pub dram_load: String,
    /// What it moved, bytes/s of machine time.
    pub dram_bytes_s: f64,
    /// The same, as a share of what it moves alone.
    pub dram_of_alone: f64,
    /// An access of the program on DRAM in the mean, machine ns.
    pub dram_access_ns: f64,
    /// What the threads on persistent memory moved, bytes/s of machine time.
    pub pm_bytes_s: f64,
    /// The same, as times what they move without any control.
    pub pm_gain: f64,
    /// The slowest of these threads beside the fastest.
    pub fairness: f64,
    /// The limit at the end; none where there is no control.
    pub limit: Option<u32>,
}

/// At 14 threads that write 4 KiB, under the formula.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PatsSummary {
    /// The copy on DRAM, as a share of its speed alone.
    pub dram_of_alone: f64,
    /// The same without any control.
    pub dram_of_alone_uncontrolled: f64,
    /// Writes to persistent memory, as times those without control.
    pub pm_gain: f64,
    /// The slowest of equal threads beside the fastest.
    pub fairness: f64,
    /// Learned limits beside the formula's, everywhere; none where no point has both.
    pub learned_of_formula: Option<LearnedOfFormula>,
    /// The same by threads: where PATS costs, it shows here.
    pub by_threads: Vec<ByThreads>,
    /// What asking for admission costs.
    pub gate: Gate,
}

/// Threads that write 4 KiB together with the copy, under the formula.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ByThreads {
    pub threads: usize,
    /// The copy on DRAM, as a share of its speed alone.
    pub dram_of_alone: f64,
    /// The same without any control.
    pub dram_of_alone_uncontrolled: f64,
    /// Writes to persistent memory, as times those without control; below 1 where PATS costs.
    pub pm_gain: f64,
}

/// Of the paper, what is not measured here.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct NotReproduced {
    pub figures: &'static str,
    pub because: &'static str,
}

/// What learned limits give, as times what the formula's give: the least of all points that have both.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LearnedOfFormula {
    /// Of the programs on DRAM.
    pub dram: f64,
    /// Of the threads on persistent memory.
    pub pm: f64,
    /// Of the product of the two: a limit may trade one for the other.
    pub both: f64,
}

/// Result of [`super::run`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PatsReport {
    /// What counts most; none where its points were left out.
    pub summary: Option<PatsSummary>,
    pub rows: Vec<PatsRow>,
    /// Figures of the paper that the medium was made with: these are no predictions.
    pub calibrated_on: &'static str,
    pub not_reproduced: Vec<NotReproduced>,
    /// Where the figures come from.
    pub emulated: bool,
    /// Rounds the medians are over.
    #[serde(skip)]
    pub rounds: usize,
}

impl PatsReport {
    pub(super) fn of(
        points: &[Point],
        found: &[Vec<Found>],
        gate: Gate,
        rounds: usize,
    ) -> PatsReport {
        let dram = |index: usize| over(&found[index], |found| found.dram.bytes_s());
        let pm = |index: usize| over(&found[index], |found| found.persistent.bytes_s());
        let position = |is_it: &dyn Fn(&Point) -> bool| points.iter().position(is_it);
        let row = |(index, point): (usize, &Point)| {
            let alone = position(&|other| {
                other.threads == 0 && (other.profile, other.load) == (point.profile, point.load)
            });
            let uncontrolled = position(&|other| {
                let same = (other.profile, other.load) == (point.profile, point.load)
                    && other.threads == point.threads
                    && other.request_bytes == point.request_bytes
                    && other.read_share == point.read_share;
                same && other.control == Control::None
            });
            let limit = found[index].last().and_then(|found| found.limit);
            PatsRow {
                figure: point.figures.join(", "),
                machine: point.profile.to_owned(),
                control: match point.control {
                    Control::None => "none",
                    Control::Formula => "formula",
                    Control::Learned => "learned",
                }
                .to_owned(),
                tolerated_loss: point.tolerated_loss,
                threads: point.threads,
                request_bytes: point.request_bytes,
                read_share: point.read_share,
                dram_load: match point.load {
                    DramLoad::Copy => "copy",
                    DramLoad::GetSet => "get_set",
                    DramLoad::Latency => "latency",
                }
                .to_owned(),
                dram_bytes_s: dram(index),
                dram_of_alone: alone.map_or(1.0, |alone| dram(index) / dram(alone)),
                dram_access_ns: over(&found[index], |found| found.dram.access_ns),
                pm_bytes_s: pm(index),
                pm_gain: uncontrolled.map_or(1.0, |other| match point.threads {
                    0 => 1.0,
                    _ => pm(index) / pm(other),
                }),
                fairness: over(&found[index], |found| found.persistent.fairness()),
                limit: limit.filter(|_| point.control != Control::None),
            }
        };
        let rows: Vec<PatsRow> = points.iter().enumerate().map(row).collect();
        PatsReport {
            summary: summary(&rows, gate),
            rows,
            calibrated_on: CALIBRATED_ON,
            not_reproduced: NOT_REPRODUCED
                .map(|(figures, because)| NotReproduced { figures, because })
                .to_vec(),
            emulated: true,
            rounds,
        }
    }

    /// A table for people, with a line that says what it shows.
    pub fn table(&self) -> String {
        let columns: &[Column<PatsRow>] = &[
            ("figure", |row| row.figure.clone()),
            ("machine", |row| row.machine.clone()),
            ("threads", |row| {
                let kind = if row.read_share > 0.0 {
                    "read"
                } else {
                    "write"
                };
                format!("{} {kind}", row.threads)
            }),
            ("request", |row| row.request_bytes.to_string()),
            ("control", |row| match row.control.as_str() {
                "formula" => format!("formula {}", row.tolerated_loss),
                other => other.to_owned(),
            }),
            (">limit", |row| {
                row.limit.map_or("–".to_owned(), |limit| limit.to_string())
            }),
            (">on DRAM", |row| row.dram_load.clone()),
            (">DRAM GB/s", |row| format!("{:.2}", row.dram_bytes_s / 1e9)),
            (">of alone", |row| format!("{:.2}", row.dram_of_alone)),
            (">DRAM ns", |row| match row.dram_load.as_str() {
                "latency" => format!("{:.0}", row.dram_access_ns),
                _ => "–".to_owned(),
            }),
            (">PM GB/s", |row| format!("{:.2}", row.pm_bytes_s / 1e9)),
            (">gain", |row| format!("{:.2}", row.pm_gain)),
            (">fairness", |row| format!("{:.2}", row.fairness)),
        ];
        table(columns, &self.rows, &self.words())
    }

    fn words(&self) -> String {
        let head = format!(
            "Emulated machines, medians of {} rounds; nothing was measured on persistent memory. {CALIBRATED_ON} {}",
            self.rounds,
            not_reproduced_words()
        );
        match &self.summary {
            None => head,
            Some(all) => {
                let learned = all.learned_of_formula.map_or_else(String::new, |learned| {
                    format!(
                        " Learned limits give at least {:.2} times what the formula's give to DRAM, {:.2} times to persistent memory.",
                        learned.dram, learned.pm
                    )
                });
                format!(
                    "{head} Fourteen threads that write 4 KiB: the copy on DRAM keeps {:.0} % of its speed alone under PATS ({:.0} % without), and \
                 the threads write {:.2} times as much; the slowest has {:.2} of the fastest.{learned}",
                    all.dram_of_alone * 100.0,
                    all.dram_of_alone_uncontrolled * 100.0,
                    all.pm_gain,
                    all.fairness
                ) + &all.more_words()
            }
        }
    }

    /// The figure for other pages.
    pub fn picture(&self) -> Markup {
        let is_shown = |row: &&PatsRow| row.is_usual() && row.control != "learned";
        let rows: Vec<&PatsRow> = self.rows.iter().filter(is_shown).collect();
        let threads: BTreeSet<usize> = rows.iter().map(|row| row.threads).collect();
        let bar = |row: &&PatsRow| Bar {
            color: match row.control.as_str() {
                "none" => colors::NOVA,
                _ => colors::EMULATED,
            },
            value: row.dram_of_alone,
            label: format!(
                "{:.0} %; writes {:.2} GB/s",
                row.dram_of_alone * 100.0,
                row.pm_bytes_s / 1e9
            ),
            mark: Some(1.0),
        };
        let groups = threads.iter().map(|threads| {
            let mine = rows.iter().filter(|row| row.threads == *threads);
            group(format!("{threads} writers"), mine.map(bar).collect())
        });
        picture(
            Some("pats"),
            "A copy on DRAM beside writers to persistent memory, as share of its speed alone (emulated)",
            &[
                (colors::NOVA, "without control"),
                (colors::EMULATED, "PATS"),
            ],
            groups.collect(),
            "The copy's speed by number of writers, with and without PATS",
        )
    }

    /// A page of its own.
    pub fn page(&self) -> String {
        let title = "PATS on emulated machines";
        page_of(title, "PATS", &self.words(), &self.picture(), &self.table())
    }
}

/// What profiles of the paper's machine were made with (see `optane-1s.toml` and its kin).
const CALIBRATED_ON: &str = "The medium was made with PATS's Figs. 1, 3, 4, 5, 7 and 8b and the peaks of §V-B: these are inputs, \
                             what a limit changes is not.";

fn not_reproduced_words() -> String {
    let words = NOT_REPRODUCED.map(|(figures, because)| format!("Fig. {figures}: {because}"));
    format!("Not reproduced: {}.", words.join("; "))
}

impl PatsRow {
    /// Writers of 4 KiB together with the copy, on the paper's machine.
    fn is_usual(&self) -> bool {
        let requests = (self.request_bytes, self.read_share) == (4096, 0.0);
        let place = (self.machine.as_str(), self.dram_load.as_str()) == ("optane-1s", "copy");
        requests && place && self.threads > 0
    }
}

impl PatsSummary {
    fn more_words(&self) -> String {
        let by_threads = self.by_threads.iter().map(|all| {
            format!(
                "{}: {:.0} % ({:.0} % without), {:.2} times",
                all.threads,
                all.dram_of_alone * 100.0,
                all.dram_of_alone_uncontrolled * 100.0,
                all.pm_gain
            )
        });
        let by_threads: Vec<String> = by_threads.collect();
        format!(
            " By threads, the copy and what they write: {}. Asking for admission takes {:.0} ns, which is {:.2} % of the machine's \
             CPU time at 14 threads (the paper: below 1 %).",
            by_threads.join("; "),
            self.gate.ask_ns,
            self.gate.cpu_share * 100.0
        )
    }
}

fn summary(rows: &[PatsRow], gate: Gate) -> Option<PatsSummary> {
    let find = |control: &str, threads: usize| {
        let is_it = |row: &&PatsRow| {
            let control = row.control == control && row.tolerated_loss == 0.2;
            row.is_usual() && control && row.threads == threads
        };
        rows.iter().find(is_it)
    };
    let by_threads = [1, 2, 4, 6, 8, 14].into_iter().filter_map(|threads| {
        let (none, formula) = (find("none", threads)?, find("formula", threads)?);
        Some(ByThreads {
            threads,
            dram_of_alone: formula.dram_of_alone,
            dram_of_alone_uncontrolled: none.dram_of_alone,
            pm_gain: formula.pm_gain,
        })
    });
    let (none, formula) = (find("none", 14)?, find("formula", 14)?);
    Some(PatsSummary {
        dram_of_alone: formula.dram_of_alone,
        dram_of_alone_uncontrolled: none.dram_of_alone,
        pm_gain: formula.pm_gain,
        fairness: formula.fairness,
        learned_of_formula: learned_of_formula(rows),
        by_threads: by_threads.collect(),
        gate: gate.at(formula.pm_bytes_s / formula.request_bytes as f64),
    })
}

fn learned_of_formula(rows: &[PatsRow]) -> Option<LearnedOfFormula> {
    let is_same = |one: &PatsRow, other: &PatsRow| {
        let load = one.dram_load == other.dram_load && one.threads == other.threads;
        let requests = one.request_bytes == other.request_bytes;
        let place = one.machine == other.machine;
        let mix = one.read_share == other.read_share;
        load && requests && place && mix && one.tolerated_loss == other.tolerated_loss
    };
    let of = |control: &'static str| rows.iter().filter(move |row| row.control == control);
    let pairs = of("learned").filter_map(|learned| {
        let formula = of("formula").find(|formula| is_same(learned, formula))?;
        let dram = learned.dram_bytes_s / formula.dram_bytes_s;
        let pm = learned.pm_bytes_s / formula.pm_bytes_s;
        Some(LearnedOfFormula {
            dram,
            pm,
            both: dram * pm,
        })
    });
    pairs.reduce(|one, other| LearnedOfFormula {
        dram: one.dram.min(other.dram),
        pm: one.pm.min(other.pm),
        both: one.both.min(other.both),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulated::Moved;
    use crate::pats::plan::{FIGURES, OURS, Selection, points};

    /// As many bytes as the paper has it, roughly.
    fn found(point: &Point) -> Found {
        let controlled = point.control != Control::None;
        let crowded = point.threads > 4 && !controlled;
        let moved = |bytes_s: f64| Moved {
            read_bytes_s: bytes_s,
            threads_bytes_s: vec![bytes_s, bytes_s * 0.95],
            ..Moved::default()
        };
        Found {
            dram: moved(if crowded { 0.5e9 } else { 7e9 }),
            persistent: moved(if crowded { 1e9 } else { 2e9 }),
            limit: controlled.then_some(2),
        }
    }

    #[test]
    fn the_summary_compares_fourteen_writers_with_no_control() {
        let points = points(&Selection::All);
        let all: Vec<Vec<Found>> = points.iter().map(|point| vec![found(point)]).collect();
        let report = PatsReport::of(&points, &all, Gate::default(), 1);
        let summary = report.summary.as_ref().expect("all points are there");
        assert!((summary.dram_of_alone - 1.0).abs() < 1e-9);
        assert!((summary.dram_of_alone_uncontrolled - 0.5 / 7.0).abs() < 1e-9);
        assert!((summary.pm_gain - 2.0).abs() < 1e-9 && (summary.fairness - 0.95).abs() < 1e-9);
        let learned = summary.learned_of_formula.expect("points with both");
        assert!((learned.dram - 1.0).abs() < 1e-9 && (learned.pm - 1.0).abs() < 1e-9);
        let limits = report.rows.iter().filter(|row| row.limit.is_some());
        assert!(limits.clone().all(|row| row.control != "none") && limits.count() > 0);
        assert!(report.page().contains("14 writers") && report.table().contains("get_set"));
        let by_threads: Vec<_> = summary.by_threads.iter().map(|all| all.threads).collect();
        assert_eq!(by_threads, [1, 2, 4, 6, 8, 14]);
    }

    #[test]
    fn each_figure_has_points_and_no_point_is_there_twice() {
        let all = points(&Selection::All);
        for figure in FIGURES {
            let of_it = all.iter().filter(|point| point.figures.contains(&figure));
            assert!(of_it.count() >= 3, "{figure}");
        }
        for (index, point) in all.iter().enumerate() {
            let named = point.figures.iter();
            assert!(
                named
                    .clone()
                    .all(|figure| *figure == OURS || FIGURES.contains(figure))
            );
            let is_same = |other: &Point| {
                Point {
                    figures: point.figures,
                    ..*other
                } == *point
            };
            assert!(!all[..index].iter().any(is_same), "{point:?}");
        }
    }
}
