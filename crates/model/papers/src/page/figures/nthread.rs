//! NThread's figures.

use super::super::figure::{Chart, Facts, Figure};
use crate::answer::Reading;
use crate::claim::Paper;
use crate::experiment::{MIXES, PERSONALITIES, WEIGHTS};
use egeria_report::chart::{Column, ColumnGroup, Columns, Line, Lines};

const SYSTEMS: [&str; 8] = [
    "ext4-dax", "pmfs", "nova", "nova_n", "rl", "cpu", "nm", "full",
];
const MEAN: &str = "mean";

pub(super) fn figures(facts: &Facts<'_>) -> Vec<Figure> {
    [
        two(facts),
        four(facts),
        systems(facts, &FIVE_A),
        systems(facts, &FIVE_B),
        systems(facts, &SIX_A),
        systems(facts, &SIX_B),
        systems(facts, &SEVEN_A),
        systems(facts, &SEVEN_B),
        systems(facts, &SEVEN_C),
        eight(facts),
        nine(facts),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// A figure with a column for each system in groups of workloads, all compared with NOVA.
struct Systems {
    key: &'static str,
    name: &'static str,
    title: &'static str,
    note: &'static str,
    groups: fn() -> Vec<&'static str>,
    /// The paper's points: group, system.
    points: fn(&Facts<'_>, &str, &str) -> Option<f64>,
    ids: &'static [&'static str],
}

const MEANS: &str = "Columns are beside NOVA in each group. The paper's bars are a picture; its text gives means and a few \
     bars, drawn as points.";

fn mixes() -> Vec<&'static str> {
    MIXES.map(|(name, _)| name).to_vec()
}

const FIVE_A: Systems = Systems {
    key: "5a",
    name: "Fig. 5a",
    title: "fio, 4 KB, 4 threads, all data on node 0 at first",
    note: MEANS,
    groups: mixes,
    points: |facts, group, system| match (group, system) {
        (MEAN, "rl" | "cpu") => facts.change("N32"),
        (MEAN, "ext4-dax") => facts.quotient("N32", "N30"),
        (MEAN, "pmfs") => facts.quotient("N32", "N31"),
        (MEAN, "nova_n") => facts.quotient("N32", "N33"),
        _ => None,
    },
    ids: &[
        "N30", "N31", "N32", "N33", "N34", "N35", "N36", "N37", "N38", "N39",
    ],
};

const FIVE_B: Systems = Systems {
    key: "5b",
    name: "Fig. 5b",
    title: "fio, 4 KB, 8 threads on 2 x 4 cores, all data on node 0 at first",
    note: MEANS,
    groups: mixes,
    points: |facts, group, system| match (group, system) {
        (MEAN, "full" | "cpu") => facts.change("N42"),
        (MEAN, "ext4-dax") => facts.quotient("N42", "N40"),
        (MEAN, "pmfs") => facts.quotient("N42", "N41"),
        (MEAN, "nova_n") => facts.quotient("N42", "N43"),
        (MEAN, "rl") => facts.quotient("N42", "N44"),
        _ => None,
    },
    ids: &[
        "N40", "N41", "N42", "N43", "N44", "N45", "N46", "N47", "N48", "N49", "N50",
    ],
};

const SIX_A: Systems = Systems {
    key: "6a",
    name: "Fig. 6a",
    title: "filebench, one instance",
    note: MEANS,
    groups: || PERSONALITIES.to_vec(),
    points: |facts, group, system| match (group, system) {
        (MEAN, "rl") => facts.change("N53"),
        (MEAN, "ext4-dax") => facts.quotient("N53", "N51"),
        (MEAN, "pmfs") => facts.quotient("N53", "N52"),
        (MEAN, "nova_n") => facts.quotient("N53", "N54"),
        (MEAN, "full") => facts.change("N58"),
        _ => None,
    },
    ids: &[
        "N51", "N52", "N53", "N54", "N55", "N56", "N57", "N58", "N64",
    ],
};

const SIX_B: Systems = Systems {
    key: "6b",
    name: "Fig. 6b",
    title: "filebench, two instances",
    note: MEANS,
    groups: || PERSONALITIES.to_vec(),
    points: |facts, group, system| match (group, system) {
        (MEAN, "rl" | "cpu" | "nm" | "full") => facts.change("N61"),
        (MEAN, "ext4-dax") => facts.quotient("N61", "N59"),
        (MEAN, "pmfs") => facts.quotient("N61", "N60"),
        (MEAN, "nova_n") => facts.quotient("N61", "N62"),
        _ => None,
    },
    ids: &["N59", "N60", "N61", "N62", "N63", "N64"],
};

const SEVEN_A: Systems = Systems {
    key: "7a",
    name: "Fig. 7a",
    title: "RocksDB, one instance",
    note: MEANS,
    groups: || vec!["W", "R", "RW"],
    points: |facts, group, system| match (group, system) {
        ("W", "full") => facts.told("N77", Reading::Change, 2),
        ("W", "ext4-dax") => puts(facts, 0),
        ("W", "pmfs") => puts(facts, 1),
        ("W", "nova_n") => puts(facts, 3),
        ("R", "full") => facts.change("N71"),
        ("R", "ext4-dax") => facts.quotient("N71", "N69"),
        ("R", "pmfs") => facts.quotient("N71", "N70"),
        ("R", "nova_n") => facts.quotient("N71", "N72"),
        ("RW", "full") => facts.change("N75"),
        ("RW", "ext4-dax") => facts.quotient("N75", "N73"),
        ("RW", "pmfs") => facts.quotient("N75", "N74"),
        ("RW", "nova_n") => facts.quotient("N75", "N76"),
        (MEAN, "full") => facts.change("N67"),
        (MEAN, "ext4-dax") => facts.quotient("N67", "N65"),
        (MEAN, "pmfs") => facts.quotient("N67", "N66"),
        (MEAN, "nova_n") => facts.quotient("N67", "N68"),
        _ => None,
    },
    ids: &[
        "N65", "N66", "N67", "N68", "N69", "N70", "N71", "N72", "N73", "N74", "N75", "N76", "N77",
        "N78",
    ],
};

const SEVEN_B: Systems = Systems {
    key: "7b",
    name: "Fig. 7b",
    title: "RocksDB, two instances",
    note: MEANS,
    groups: || vec!["W", "R", "RW"],
    points: |facts, group, system| match (group, system) {
        (MEAN, "full") => facts.change("N81"),
        (MEAN, "ext4-dax") => facts.quotient("N81", "N79"),
        (MEAN, "pmfs") => facts.quotient("N81", "N80"),
        (MEAN, "nova_n") => facts.quotient("N81", "N82"),
        _ => None,
    },
    ids: &["N79", "N80", "N81", "N82"],
};

const SEVEN_C: Systems = Systems {
    key: "7c",
    name: "Fig. 7c",
    title: "RocksDB, one instance, four nodes with DRAM as persistent memory",
    note: MEANS,
    groups: || vec!["W", "R", "RW"],
    points: |facts, group, system| match (group, system) {
        (MEAN, "full") => facts.change("N86"),
        (MEAN, "ext4-dax") => facts.quotient("N86", "N84"),
        (MEAN, "pmfs") => facts.quotient("N86", "N85"),
        (MEAN, "nova_n") => facts.quotient("N86", "N87"),
        _ => None,
    },
    ids: &["N84", "N85", "N86", "N87"],
};

/// N77 compares all with NThread; this compares one of them with NOVA.
fn puts(facts: &Facts<'_>, part: usize) -> Option<f64> {
    let of = |part| facts.told("N77", Reading::Change, part);
    Some(of(2)? / of(part)?)
}

fn systems(facts: &Facts<'_>, figure: &Systems) -> Option<Figure> {
    let workloads = (figure.groups)();
    let of = |group: &str, system: &str| match group {
        MEAN => facts
            .results
            .mean_ratio(figure.key, &workloads, system, "nova"),
        group => facts.results.ratio(figure.key, group, system, "nova"),
    };
    let column = |group: &str, (series, system): (usize, &&str)| {
        Some(Column {
            series,
            name: format!("{group}, {system}"),
            value: of(group, system)?,
            range: None,
            point: (figure.points)(facts, group, system),
        })
    };
    let group = |name: &&'static str| {
        let columns = SYSTEMS.iter().enumerate();
        let columns: Option<Vec<Column>> = columns.map(|each| column(name, each)).collect();
        Some(ColumnGroup {
            name: (*name).to_owned(),
            columns: columns?,
        })
    };
    let groups: Option<Vec<ColumnGroup>> = workloads.iter().chain(&[MEAN]).map(group).collect();
    Some(Figure {
        paper: Paper::NThread,
        name: figure.name,
        title: figure.title,
        note: figure.note,
        series: SYSTEMS.map(str::to_owned).to_vec(),
        chart: Chart::Columns(Columns {
            unit: "times NOVA".to_owned(),
            groups: groups?,
        }),
        ids: figure.ids,
    })
}

/// Columns of one series in groups.
fn single(
    unit: &str,
    bars: Vec<(String, Option<f64>, Option<f64>)>,
    series: usize,
) -> Option<Columns> {
    let group = |(name, value, point): (String, Option<f64>, Option<f64>)| {
        Some(ColumnGroup {
            columns: vec![Column {
                series,
                name: name.clone(),
                value: value?,
                range: None,
                point,
            }],
            name,
        })
    };
    let groups: Option<Vec<ColumnGroup>> = bars.into_iter().map(group).collect();
    Some(Columns {
        unit: unit.to_owned(),
        groups: groups?,
    })
}

fn two(facts: &Facts<'_>) -> Option<Figure> {
    let of = |bar| facts.results.ratio("2", "RW", bar, "all local");
    let of_own = |bar| facts.results.bar("2 of all local", "RW", bar);
    let bars = vec![
        ("NOVA, all local".to_owned(), of("all local"), None),
        (
            "NOVA, threads free".to_owned(),
            of("nova"),
            facts.told("N26", Reading::Share, 0),
        ),
        (
            "NOVA_n, threads free".to_owned(),
            of("nova_n"),
            facts.told("N27", Reading::Share, 0),
        ),
        ("NOVA, all remote".to_owned(), of("all remote"), None),
        (
            "ext4-dax, threads free".to_owned(),
            of_own("ext4-dax"),
            facts.told("N24", Reading::Share, 0),
        ),
        (
            "PMFS, threads free".to_owned(),
            of_own("pmfs"),
            facts.told("N25", Reading::Share, 0),
        ),
    ];
    Some(Figure {
        paper: Paper::NThread,
        name: "Fig. 2",
        title: "two RocksDB instances, readwhilewriting",
        note: "",
        series: vec!["model".to_owned()],
        chart: Chart::Columns(single("of its all local", bars, 0)?),
        ids: &["N24", "N25", "N26", "N27"],
    })
}

fn four(facts: &Facts<'_>) -> Option<Figure> {
    let sizes = ["1 KB", "4 KB", "16 KB"];
    let bars = sizes.iter().flat_map(|size| {
        [8, 16].map(|threads| {
            let group = format!("{size}, {threads} threads");
            let ratio = facts.results.ratio("4", &group, "spread", "crowded");
            let point = match *size {
                "1 KB" => facts.change("N28"),
                _ => facts.change("N29"),
            };
            (group, ratio, point)
        })
    });
    Some(Figure {
        paper: Paper::NThread,
        name: "Fig. 4",
        title: "half of the threads moved away from their data, on 4 cores per node",
        note: "Beside all threads on the node of their data. The paper's -20 % at 4 and 16 KB is the worst of its cases.",
        series: vec!["model".to_owned()],
        chart: Chart::Columns(single("of crowded", bars.collect(), 0)?),
        ids: &["N28", "N29"],
    })
}

fn eight(facts: &Facts<'_>) -> Option<Figure> {
    let bars = ["80 %", "90 %", "100 %", "110 %", "130 %", "none"].map(|bar| {
        let ratio = facts.results.ratio("8", "1 KB, 16 threads", bar, "100 %");
        (bar.to_owned(), ratio, None)
    });
    Some(Figure {
        paper: Paper::NThread,
        name: "Fig. 8",
        title: "the limit of CPU use: fio, 1 KB, 16 threads, 4 cores",
        note: "",
        series: vec!["model".to_owned()],
        chart: Chart::Columns(single("of limit 100 %", bars.to_vec(), 0)?),
        ids: &["N88"],
    })
}

fn nine(facts: &Facts<'_>) -> Option<Figure> {
    const BYTES_PER_GB: f64 = 1e9;
    let line = |(series, (weight, _)): (usize, (&str, f64))| {
        let points = facts.results.curve("9", weight)?;
        let scaled = points.iter().map(|(x, y)| (*x, y / BYTES_PER_GB));
        Some(Line {
            series,
            name: format!("weight {weight}"),
            values: scaled.collect(),
            points: Vec::new(),
        })
    };
    let lines: Option<Vec<Line>> = WEIGHTS.into_iter().enumerate().map(line).collect();
    Some(Figure {
        paper: Paper::NThread,
        name: "Fig. 9",
        title: "bandwidth by Eq. 1 with different weights of a byte read",
        note: "",
        series: WEIGHTS
            .map(|(weight, _)| format!("weight {weight}"))
            .to_vec(),
        chart: Chart::Lines(Lines {
            x_unit: "share of reads, %".to_owned(),
            y_unit: "GB/s".to_owned(),
            lines: lines?,
            low: false,
        }),
        ids: &["N89"],
    })
}
