//! What all benches share: points that are measured in turn in every round, medians, progress, tables and pages.

use comfy_table::{CellAlignment, Table, presets};
use egeria_harness::process::{Cancel, check_cancel};
use egeria_harness::{Progress, Result, silent};
use egeria_report::chart::{Bar, BarGroup, Bars, Color};
use egeria_report::page;
use egeria_stats::statistics::{median, rotated_order, spread};
use maud::{Markup, html};

use crate::colors;

/// Where a bench reports its progress, and what ends it.
#[derive(Clone, Copy)]
pub struct Watch<'a> {
    /// Set it (as from a signal handler) to stop and clean up.
    pub cancel: Cancel<'a>,
    /// Called before each step.
    pub progress: &'a dyn Fn(&Progress<'_>),
}

impl Default for Watch<'_> {
    fn default() -> Self {
        Watch {
            cancel: None,
            progress: &silent,
        }
    }
}

impl Watch<'_> {
    /// Reports the next step.
    ///
    /// # Errors
    /// When the bench is to stop.
    pub(crate) fn step(&self, done: usize, total: usize, what: &str) -> Result<()> {
        check_cancel(self.cancel)?;
        let (done, total) = (done as u64, total as u64);
        (self.progress)(&Progress { done, total, what });
        Ok(())
    }

    /// Measures every point once in each round, so that slow drifts of the host meet all alike. What each point gave, by
    /// round.
    pub(crate) fn rounds<P, F>(
        &self,
        rounds: usize,
        points: &[P],
        words: impl Fn(&P) -> String,
        mut measure: impl FnMut(&P) -> Result<F>,
    ) -> Result<Vec<Vec<F>>> {
        let mut found: Vec<Vec<F>> = points.iter().map(|_| Vec::new()).collect();
        for round in 0..rounds {
            for (index, point) in points.iter().enumerate() {
                let done = round * points.len() + index;
                self.step(done, rounds * points.len(), &words(point))?;
                found[index].push(measure(point)?);
            }
        }
        Ok(found)
    }

    /// Measures all subjects of a point once, in an order that rotates with the round: what one leaves in the caches meets
    /// all alike. What each gave, by subject.
    pub(crate) fn in_turn<F>(
        &self,
        round: usize,
        subjects: usize,
        mut measure: impl FnMut(usize) -> Result<F>,
    ) -> Result<Vec<F>> {
        let mut found: Vec<(usize, F)> = Vec::with_capacity(subjects);
        for subject in rotated_order(subjects, round) {
            check_cancel(self.cancel)?;
            found.push((subject, measure(subject)?));
        }
        found.sort_by_key(|(subject, _)| *subject);
        Ok(found.into_iter().map(|(_, found)| found).collect())
    }
}

/// The median of a figure over the rounds.
pub(crate) fn over<F>(rounds: &[F], figure: impl Fn(&F) -> f64) -> f64 {
    let values: Vec<f64> = rounds.iter().map(figure).collect();
    median(&values).unwrap_or(0.0)
}

/// How far the rounds of a place lie apart, as a share of its median: the most of all places. `None` after one round.
pub(crate) fn apart(places: impl Iterator<Item = Vec<f64>>) -> Option<f64> {
    let spreads = places.filter_map(|values| spread(&values));
    let most = spreads.reduce(f64::max)?;
    Some((most * 1e3).round() / 1e3)
}

/// Such a spread behind a figure; nothing where it is not known.
pub(crate) fn within(spread: Option<f64>) -> String {
    spread.map_or_else(String::new, |share| format!(" ±{:.0} %", share * 50.0))
}

/// A header of a table, and what a row has below it. A header that begins with `>` aligns its column to the right.
pub(crate) type Column<'n, R> = (&'n str, fn(&R) -> String);

/// A table for people, and below it what it shows.
pub(crate) fn table<R>(columns: &[Column<'_, R>], rows: &[R], words: &str) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED);
    table.set_header(columns.iter().map(|(name, _)| name.trim_start_matches('>')));
    for row in rows {
        table.add_row(columns.iter().map(|(_, cell)| cell(row)));
    }
    for (index, (name, _)) in columns.iter().enumerate() {
        if name.starts_with('>')
            && let Some(column) = table.column_mut(index)
        {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let below = if words.is_empty() { "" } else { "\n" };
    format!("{table}{below}{words}")
}

/// Bars that belong together, and what they are of.
pub(crate) fn group(name: impl Into<String>, bars: Vec<Bar>) -> BarGroup {
    BarGroup {
        name: name.into(),
        bars,
        stacked: false,
    }
}

/// A figure of bars, with what their colours stand for.
pub(crate) fn picture(
    id: Option<&str>,
    caption: &str,
    keys: &[(Color, &str)],
    groups: Vec<BarGroup>,
    description: &str,
) -> Markup {
    let keys = html! { @for (color, name) in keys { (page::key(*color, name)) } };
    let drawn = Bars { groups }.draw(description);
    page::figure(id, caption, &keys, &drawn, &html! {})
}

/// A page of one bench: what it found in words, in pictures, and as a table.
pub(crate) fn page_of(
    title: &str,
    heading: &str,
    words: &str,
    pictures: &Markup,
    table: &str,
) -> String {
    let body = html! {
        h1 { (heading) }
        p { (words) }
        (pictures)
        @if !table.is_empty() { pre { (table) } }
    };
    page::page(title, colors::STYLE, &body)
}

#[cfg(test)]
mod tests {
    use super::*;
    use egeria_harness::Error;
    use std::cell::RefCell;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn points_are_measured_in_turn_in_every_round() {
        let steps = RefCell::new(Vec::new());
        let note = |step: &Progress<'_>| steps.borrow_mut().push((step.done, step.what.to_owned()));
        let watch = Watch {
            progress: &note,
            ..Watch::default()
        };
        let mut count = 0;
        let found = watch.rounds(
            2,
            &["a", "b"],
            |point| (*point).to_owned(),
            |_| {
                count += 1;
                Ok(count)
            },
        );
        assert_eq!(found.unwrap(), [[1, 3], [2, 4]]);
        let steps = steps.into_inner();
        let steps: Vec<_> = steps
            .iter()
            .map(|(done, what)| (*done, what.as_str()))
            .collect();
        assert_eq!(steps, [(0, "a"), (1, "b"), (2, "a"), (3, "b")]);
    }

    #[test]
    fn each_subject_is_first_in_some_round() {
        let watch = Watch::default();
        for round in 0..3 {
            let mut order = Vec::new();
            let found = watch.in_turn(round, 3, |subject| {
                order.push(subject);
                Ok(10 * subject)
            });
            assert_eq!(found.unwrap(), [0, 10, 20]);
            assert_eq!(order[0], round);
        }
    }

    #[test]
    fn a_stop_is_an_error_before_the_next_point() {
        let stop = AtomicBool::new(false);
        let watch = Watch {
            cancel: Some(&stop),
            ..Watch::default()
        };
        let mut count = 0;
        let found = watch.rounds(
            9,
            &[()],
            |()| String::new(),
            |()| {
                count += 1;
                stop.store(count == 3, Ordering::Relaxed);
                Ok(())
            },
        );
        assert!(matches!(found, Err(Error::Interrupted)));
        assert_eq!(count, 3);
    }
}
