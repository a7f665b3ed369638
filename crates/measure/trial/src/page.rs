//! A trial as a page with one picture.

use egeria_report::chart::{Line, Lines, short};
use egeria_report::page::{facts, figure, page};
use egeria_report::table::{heading, number, table, text};
use maud::{Markup, html};

use crate::answer::Answer;
use crate::report::{Report, SideReport, duration_s, percent};

impl Report {
    /// A page: the answers, a picture of all runs, and what was done.
    pub fn page(&self) -> String {
        let title = format!("Trial of {}", self.subject);
        let body = html! {
            h1 { (title) }
            @for comparison in &self.comparisons {
                p class=(class(comparison.finding.answer)) { (comparison.sentence) }
            }
            @for warning in &self.warnings { p.note { (warning) } }
            (self.picture())
            h2 { "Sides" }
            (self.table())
            (self.activities())
            @if let Some(copy) = &self.copy { p { (copy.sentence()) } }
            @if let Some(keep) = &self.keep { h2 { "To keep it" } pre { (keep) } }
            h2 { "How it was measured" }
            (self.facts())
        };
        page(&title, "", &body)
    }

    /// The value of each run, by pair.
    fn picture(&self) -> Markup {
        let line = |(series, side): (usize, &SideReport)| {
            let values = self.rounds.iter().enumerate();
            let values = values
                .filter_map(|(round, values)| Some((round as f64 + 1.0, *values.get(series)?)));
            Line {
                series,
                name: side.name.clone(),
                values: values.collect(),
                points: Vec::new(),
            }
        };
        let unit = if self.unit.is_empty() {
            "value"
        } else {
            "wall time, s"
        };
        let lines = Lines {
            x_unit: "pair".to_owned(),
            y_unit: unit.to_owned(),
            lines: self.sides.iter().enumerate().map(line).collect(),
            low: false,
        };
        let description = format!("{} of every run of each side, pair by pair", self.measure);
        figure(
            None,
            &self.measure,
            &lines.keys(),
            &lines.draw(&description),
            &html! {},
        )
    }

    fn table(&self) -> Markup {
        let rows: Vec<_> = (self.sides.iter())
            .map(|side| {
                vec![
                    heading(side.name.clone()),
                    number(side.runs.to_string()),
                    number(side.median.map_or_else(String::new, short)),
                    number(side.range.map_or_else(String::new, |[least, most]| {
                        format!("{} to {}", short(least), short(most))
                    })),
                    number(side.own_cpus.map_or_else(String::new, percent)),
                    text(side.done.words()),
                ]
            })
            .collect();
        let median = format!("median{}", if self.unit.is_empty() { "" } else { ", s" });
        table(
            &[
                "side",
                "runs",
                &median,
                "least to most",
                "CPU of Egeria",
                "what was done",
            ],
            &rows,
        )
    }

    /// What the host counted of a service, if anything.
    fn activities(&self) -> Markup {
        let seen = self.activity_names();
        if seen.is_empty() {
            return html! {};
        }
        let rows = self.sides.iter().map(|side| {
            let values = seen.iter().map(|name| side.activity_of(name));
            let values = values.map(|value| number(value.map_or_else(String::new, short)));
            std::iter::once(heading(side.name.clone())).chain(values)
        });
        let rows: Vec<Vec<_>> = rows.map(Iterator::collect).collect();
        let headers: Vec<&str> = std::iter::once("side").chain(seen).collect();
        table(&headers, &rows)
    }

    fn facts(&self) -> Markup {
        let unknown = || "not known".to_owned();
        facts(&[
            ("measure", self.measure.clone()),
            (
                "runs differ by themselves",
                self.noise.spread.map_or_else(unknown, percent),
            ),
            (
                "CPU time of other programs",
                self.others_share.map_or_else(unknown, percent),
            ),
            ("took", duration_s(self.elapsed_s)),
            ("seed", self.seed.to_string()),
            (
                "not counted",
                format!("{} run before the pairs", self.warm_ups),
            ),
            (
                "CPU time of measuring, of that of the command",
                self.overhead.map_or_else(unknown, percent),
            ),
        ])
    }
}

fn class(answer: Answer) -> &'static str {
    match answer {
        Answer::Better => "verdict good",
        Answer::Worse => "verdict bad",
        Answer::NoDifference | Answer::NotKnown => "verdict",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::{Better, Finding};
    use crate::noise::Noise;
    use crate::report::Comparison;
    use crate::side::Done;
    use crate::trial::Ended;
    use egeria_harness::testing::html::unclosed;

    #[test]
    fn the_page_is_whole_and_shows_every_run_once() {
        let side = |name: &str| SideReport {
            name: name.to_owned(),
            runs: 2,
            median: Some(1.0),
            range: Some([0.9, 1.2]),
            own_cpus: Some(0.01),
            activity: None,
            done: Done::default(),
        };
        let report = Report {
            subject: "<b>".to_owned(),
            measure: "wall time".to_owned(),
            unit: "s",
            better: Better::Lower,
            seed: 1,
            bound: 0.02,
            confidence: 0.95,
            warm_ups: 1,
            elapsed_s: 9.0,
            ended: Ended::Known,
            sides: vec![side("off"), side("all")],
            comparisons: vec![Comparison {
                side: "all".to_owned(),
                against: "off".to_owned(),
                finding: Finding {
                    answer: Answer::Better,
                    change: Some(-0.1),
                    low: None,
                    high: None,
                    pairs: 2,
                },
                sentence: "all helps".to_owned(),
            }],
            noise: Noise {
                spread: None,
                drift: None,
            },
            others_share: None,
            overhead: None,
            warnings: Vec::new(),
            rounds: vec![vec![1.0, 0.9], vec![1.1, 1.0]],
            copy: None,
            keep: None,
        };
        let page = report.page();
        assert_eq!(unclosed(&page), Ok(Vec::new()));
        assert!(page.contains("verdict good\">all helps") && page.contains("&lt;b&gt;"));
        let lines = page.matches("<polyline").count();
        assert_eq!(lines, 2, "{page}");
    }
}
