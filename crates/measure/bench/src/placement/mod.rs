//! The placement suite's results: what its guest printed, as rows, judged by the aims, and as a page.

mod aims;
mod gain;
mod page;
mod raw;
mod row;

use egeria_harness::Result;
use serde::Serialize;

use crate::experiment::{Column, table};

pub use aims::Judged;
pub use page::page;
pub use row::Row;

/// What came of the cases.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct PlacementReport {
    pub rows: Vec<Row>,
    pub aims: Vec<Judged>,
}

/// The report of a guest's console, or of several behind each other.
///
/// # Errors
/// When the text has no whole run, or a line of one cannot be read.
pub fn read(console: &str) -> Result<PlacementReport> {
    let rows = row::rows(&raw::parse(console)?);
    let aims = aims::judge(&rows);
    Ok(PlacementReport { rows, aims })
}

impl PlacementReport {
    /// A table for people, and the aims with what misses them.
    pub fn table(&self) -> String {
        let columns: &[Column<Row>] = &[
            ("case", |row| row.fault.clone()),
            ("system", |row| row.system.clone()),
            (">first %", |row| share(row.first_share)),
            (">local %", |row| share(row.local_share)),
            (">best %", |row| share(row.best_possible)),
            (">settled, s", |row| {
                row.settled_s
                    .map_or("-".to_owned(), |time| format!("{time:.1}"))
            }),
            (">pages", |row| row.pages_moved.to_string()),
            (">threads", |row| row.threads_moved.to_string()),
            (">masks", |row| row.masks_changed.to_string()),
            (">gain, model", |row| {
                row.model_gain
                    .map_or("-".to_owned(), |gain| format!("{gain:.2}"))
            }),
        ];
        let aims: String = self.aims.iter().map(line).collect();
        let words = "Gains are predicted by a model of two machines, not measured.";
        format!("{}\n\n{aims}", table(columns, &self.rows, words))
    }
}

fn share(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{:.0}", share * 100.0))
}

fn line(judged: &Judged) -> String {
    let missed = judged.missed.join(", ");
    let of = format!("{} of {} cases", judged.aim, judged.cases);
    if missed.is_empty() {
        format!("{of}\n")
    } else {
        format!("{of}; not: {missed}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A run of a case: the share goes from `first` to `last` in `after` samples of half a second, and pages move then.
    fn run(kind: &str, system: &str, (first, last): (f64, f64), after: usize) -> String {
        let mut text = format!(
            "x@{{\"run\":{{\"fault\":\"case\",\"kind\":\"{kind}\",\"nodes\":2,\"cpus\":3,\"system\":\"{system}\",\"best_possible\":1}}}}\n"
        );
        for sample in 0..30 {
            let is_over = sample >= 3 + after;
            let share = if is_over { last } else { first };
            let migrated = if is_over && first < last { 500 } else { 100 };
            text += &format!(
                "@{{\"sample\":{{\"t\":{},\"migrated\":{migrated},\"hinted\":0,\"masks\":0,\"wandered\":0,\"busy\":2,\"flows\":[[1,1,{}],[1,0,{}]]}}}}\n",
                sample as f64 / 2.0 - 1.0,
                share * 1000.0,
                (1.0 - share) * 1000.0
            );
        }
        text + "@{\"end\":30}\n"
    }

    fn report(runs: &[String]) -> PlacementReport {
        read(&runs.concat()).unwrap()
    }

    #[test]
    fn a_row_has_the_last_share_and_when_it_came() {
        let report = report(&[
            run("fault", "nothing", (0.0, 0.0), 0),
            run("fault", "egeria", (0.0, 1.0), 8),
        ]);
        let row = &report.rows[1];
        assert_eq!((row.first_share, row.local_share), (Some(0.0), Some(1.0)));
        assert!((4.0..=5.5).contains(&row.settled_s.unwrap()), "{row:?}");
        assert_eq!((row.pages_moved, row.pages_moved_needlessly), (400, 0));
        assert!((4.0..=4.6).contains(&row.rest_s), "{row:?}");
        assert_eq!(report.rows[0].settled_s, Some(0.0));
    }

    #[test]
    fn near_memory_gains_in_the_model() {
        let report = report(&[
            run("fault", "nothing", (0.0, 0.0), 0),
            run("fault", "egeria", (0.0, 1.0), 8),
        ]);
        let gain = |row: usize| report.rows[row].model_gain.unwrap();
        assert!((gain(0) - 1.0).abs() < 1e-9);
        assert!(gain(1) > 1.05, "{}", gain(1));
        assert_eq!(report.rows[1].model_gains.len(), 2);
    }

    #[test]
    fn a_node_that_the_model_lacks_is_left_out_unless_it_is_most() {
        let far = |share: f64| {
            let near = run("fault", "nothing", (1.0, 1.0), 0);
            let kept = 1000.0 * (1.0 - share);
            near.replace(
                "[1,1,1000]",
                &format!("[1,1,{kept}],[1,2,{}]", 1000.0 * share),
            )
        };
        let profiles = |share: f64| report(&[far(share)]).rows[0].model_gains.len();
        assert_eq!((profiles(0.0), profiles(0.3), profiles(0.9)), (2, 2, 1));
    }

    #[test]
    fn what_is_behind_a_peer_or_moves_in_a_control_is_named() {
        let fault = [
            run("fault", "nothing", (0.0, 0.0), 0),
            run("fault", "balancing", (0.0, 1.0), 4),
            run("fault", "egeria", (0.0, 0.5), 8),
        ];
        let behind = &report(&fault).aims;
        assert!(
            !behind[0].aim.met && behind[0].missed == ["case (50 %, a peer 100 %)"],
            "{behind:?}"
        );
        assert!(!behind[1].aim.met);
        assert!(behind[2].aim.met && behind[3].aim.met);
        let control = &report(&[run("control", "egeria", (0.0, 1.0), 4)]).aims;
        assert_eq!(control[4].missed, ["case (400 pages, 0 masks)"]);
        let worse = [
            run("control", "nothing", (1.0, 1.0), 0),
            run("control", "egeria", (1.0, 0.5), 4),
        ];
        let worse = &report(&worse).aims;
        assert_eq!(worse[2].missed, ["case (50 %, nothing 100 %)"]);
        assert!(worse[4].aim.met);
    }

    #[test]
    fn a_run_that_broke_off_is_no_row() {
        let whole = run("fault", "nothing", (0.0, 0.0), 0);
        let broken = run("fault", "egeria", (0.0, 1.0), 4).replace("@{\"end\":30}", "panic");
        assert_eq!(report(&[whole.clone(), broken.clone()]).rows.len(), 1);
        assert!(read(&broken).is_err());
        assert!(read(&whole.replace("\"t\":-1", "\"t\":x")).is_err());
        assert!(read("").is_err());
    }

    #[test]
    fn the_page_draws_each_case_and_names_what_is_predicted() {
        let page = page(&report(&[
            run("fault", "nothing", (0.0, 0.0), 0),
            run("fault", "egeria", (0.0, 1.0), 8),
        ]));
        assert_eq!(page.matches("<figure").count(), 1);
        assert!(
            page.contains("predicted by a model, not measured") && page.contains("xeon-2s-dram")
        );
        assert!(page.contains("no such case was run"), "there is no control");
    }
}
