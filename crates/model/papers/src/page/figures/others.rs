//! Figures of OdinFS and AsymSched.

use super::super::figure::{Chart, Facts, Figure};
use crate::answer::Reading;
use crate::claim::Paper;
use crate::experiment::migration::MOVED_GB;
use crate::experiment::odin::CASES;
use egeria_report::chart::{Column, ColumnGroup, Columns, Line, Lines};

const BYTES_PER_GB: f64 = 1e9;

pub(super) fn figures(facts: &Facts<'_>) -> Vec<Figure> {
    let all = [
        performance(facts),
        one_node(facts),
        subsets(facts),
        machines(facts),
        migration(facts),
    ];
    all.into_iter().flatten().collect()
}

fn performance(facts: &Facts<'_>) -> Option<Figure> {
    let ids = ["O09", "O10", "O13", "O12"];
    let group = |((case, _, _), id): (&(&str, f64, u64), &str)| {
        Some(ColumnGroup {
            name: (*case).to_owned(),
            columns: vec![Column {
                series: 2,
                name: (*case).to_owned(),
                value: facts.results.ratio("O", case, "odin", "existing")?,
                range: None,
                point: facts.told(id, Reading::Plain, 0),
            }],
        })
    };
    let groups: Option<Vec<ColumnGroup>> = CASES.iter().zip(ids).map(group).collect();
    Some(Figure {
        paper: Paper::OdinFs,
        name: "Performance",
        title: "224 threads, private files, OdinFS beside an existing file system",
        note: "",
        series: Vec::new(),
        chart: Chart::Columns(Columns {
            unit: "times existing".to_owned(),
            groups: groups?,
        }),
        ids: &["O01", "O02", "O09", "O10", "O12", "O13"],
    })
}

fn one_node(facts: &Facts<'_>) -> Option<Figure> {
    let points = facts.results.curve("O one node", "writes")?;
    let scaled = points.iter().map(|(x, y)| (*x, y / BYTES_PER_GB));
    Some(Figure {
        paper: Paper::OdinFs,
        name: "One node",
        title: "threads that write 2 MB on one node",
        note: "The slides' picture has no figures in its text.",
        series: vec!["writes".to_owned()],
        chart: Chart::Lines(Lines {
            x_unit: "threads".to_owned(),
            y_unit: "GB/s".to_owned(),
            lines: vec![Line {
                series: 0,
                name: "writes".to_owned(),
                values: scaled.collect(),
                points: Vec::new(),
            }],
            low: false,
        }),
        ids: &["O07", "O08"],
    })
}

fn subsets(facts: &Facts<'_>) -> Option<Figure> {
    let values = facts.results.curve("A2", "facerec")?.to_vec();
    let last = values.last()?.0;
    let told = [(1.0, facts.change("A06")), (last, facts.change("A05"))];
    let told = told.into_iter().filter_map(|(x, y)| Some((x, y?)));
    Some(Figure {
        paper: Paper::AsymSched,
        name: "Figs. 2 to 4",
        title: "one program on every three of eight nodes, machine A",
        note: "Sets of nodes by speed, beside their mean. The points are the paper's worst and best of 20 applications; the \
             line is of a program that only waits for memory.",
        series: vec!["program".to_owned()],
        chart: Chart::Lines(Lines {
            x_unit: "set of nodes, slowest first".to_owned(),
            y_unit: "of the mean".to_owned(),
            lines: vec![Line {
                series: 0,
                name: "program".to_owned(),
                values,
                points: told.collect(),
            }],
            low: false,
        }),
        ids: &[
            "A05", "A06", "A07", "A10", "A11", "A22", "A39", "A40", "A41", "A44",
        ],
    })
}

fn machines(facts: &Facts<'_>) -> Option<Figure> {
    let named = [("A", "A18"), ("B", "A19"), ("C", "A20"), ("D", "A21")];
    let group = |(name, id): (&str, &str)| {
        Some(ColumnGroup {
            name: format!("machine {name}"),
            columns: vec![Column {
                series: 3,
                name: name.to_owned(),
                value: facts.results.ratio("A t3", name, "best", "worst")?,
                range: None,
                point: facts.told(id, Reading::Change, 2),
            }],
        })
    };
    let groups: Option<Vec<ColumnGroup>> = named.into_iter().map(group).collect();
    Some(Figure {
        paper: Paper::AsymSched,
        name: "Tables 1 to 3",
        title: "streamcluster on the best pair of nodes, beside the worst",
        note: "",
        series: Vec::new(),
        chart: Chart::Columns(Columns {
            unit: "times the worst".to_owned(),
            groups: groups?,
        }),
        ids: &["A13", "A14", "A15", "A18", "A19", "A20", "A21"],
    })
}

fn migration(facts: &Facts<'_>) -> Option<Figure> {
    let ids = ["A45", "A46", "A47", "A48", "A49", "A50", "A51"];
    let group = |((program, _), id): (&(&str, f64), &str)| {
        Some(ColumnGroup {
            name: (*program).to_owned(),
            columns: vec![Column {
                series: 5,
                name: (*program).to_owned(),
                value: facts.results.bar("A t5", program, "fast")?,
                range: None,
                point: facts.told(id, Reading::Plain, 1),
            }],
        })
    };
    let groups: Option<Vec<ColumnGroup>> = MOVED_GB.iter().zip(ids).map(group).collect();
    Some(Figure {
        paper: Paper::AsymSched,
        name: "Table 5",
        title: "moving a program's memory at once",
        note: "At the speed of links and memory, from random nodes.",
        series: Vec::new(),
        chart: Chart::Columns(Columns {
            unit: "ms".to_owned(),
            groups: groups?,
        }),
        ids: &[
            "A31", "A32", "A45", "A46", "A47", "A48", "A49", "A50", "A51",
        ],
    })
}
