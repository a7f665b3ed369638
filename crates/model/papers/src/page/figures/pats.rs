//! PATS's figures.

use super::super::figure::{Chart, Facts, Figure};
use crate::answer::Reading;
use crate::claim::Paper;
use crate::experiment::pats::{DEFAULT, LESS, MAX_THREADS, MORE, Series, Who};
use egeria_report::chart::{Line, Lines};

const BYTES_PER_GB: f64 = 1e9;
const COPY: &str = "copy";
const PERSISTENT: &str = "persistent";
const THREADS: &str = "threads at persistent memory";

pub(super) fn figures(facts: &Facts<'_>) -> Vec<Figure> {
    let all = [
        one(facts),
        three(facts),
        five(facts),
        six(facts),
        seven(facts),
        eight(facts),
        ten(facts),
        twelve(facts),
        thirteen(facts),
        fourteen(facts),
    ];
    all.into_iter().flatten().collect()
}

/// What lines of a figure are: name, curve, `copy` or `persistent`, the paper's points.
type Drawn<'a> = (&'a str, Series, &'static str, Vec<(f64, f64)>);

/// Lines of writes: name, controller, bytes of a request, the paper's points.
type Writes<'a> = (&'a str, Who, u64, Vec<(f64, f64)>);

/// Lines divided by their own value with `threads` threads.
fn beside(facts: &Facts<'_>, drawn: Vec<Drawn<'_>>, unit: &str, threads: f64) -> Option<Lines> {
    let line = |(series, (name, curve, what, points)): (usize, Drawn<'_>)| {
        let values = curve.curve(facts.results, what)?;
        let base = values.iter().find(|(x, _)| *x == threads)?.1;
        let scaled = values.iter().filter(|(x, _)| *x >= threads);
        Some(Line {
            series,
            name: name.to_owned(),
            values: scaled.map(|(x, y)| (*x, y / base)).collect(),
            points,
        })
    };
    let lines: Option<Vec<Line>> = drawn.into_iter().enumerate().map(line).collect();
    Some(Lines {
        x_unit: THREADS.to_owned(),
        y_unit: unit.to_owned(),
        lines: lines?,
        low: false,
    })
}

fn figure(
    name: &'static str,
    title: &'static str,
    note: &'static str,
    lines: Lines,
    ids: &'static [&'static str],
) -> Figure {
    Figure {
        paper: Paper::Pats,
        name,
        title,
        note,
        series: lines.lines.iter().map(|line| line.name.clone()).collect(),
        chart: Chart::Lines(lines),
        ids,
    }
}

fn points<const COUNT: usize>(points: [(f64, Option<f64>); COUNT]) -> Vec<(f64, f64)> {
    let points = points.into_iter();
    points.filter_map(|(x, y)| Some((x, y?))).collect()
}

fn one(facts: &Facts<'_>) -> Option<Figure> {
    let writers = Series::writes(Who::Baseline, 4096);
    let readers = Series::on("optane-1s", Who::Baseline, 1.0, 4096);
    let most = f64::from(MAX_THREADS);
    let left = facts.told("P01", Reading::Loss, 0);
    let drawn: Vec<Drawn<'_>> = vec![
        (
            "copy in DRAM, beside writers",
            writers,
            COPY,
            points([(most, left)]),
        ),
        (
            "writes of persistent memory",
            writers,
            PERSISTENT,
            points([(most, facts.told("P05", Reading::Loss, 0))]),
        ),
        (
            "reads of persistent memory",
            readers,
            PERSISTENT,
            points([
                (5.0, facts.told("P02", Reading::Plain, 0)),
                (most, facts.told("P03", Reading::Plain, 0)),
            ]),
        ),
    ];
    let lines = beside(facts, drawn, "of one thread", 1.0)?;
    let note = "The points of persistent memory are inputs: the model is calibrated on them. That of the copy is a bound.";
    Some(figure(
        "Fig. 1",
        "DRAM and persistent memory together",
        note,
        lines,
        &["P01"],
    ))
}

fn three(facts: &Facts<'_>) -> Option<Figure> {
    let values = facts.results.curve("P3", "latency_ns")?.to_vec();
    let told = points([
        (2.0, facts.told("P06", Reading::Plain, 0)),
        (14.0, facts.told("P07", Reading::Plain, 0)),
    ]);
    let lines = Lines {
        x_unit: "threads that read persistent memory".to_owned(),
        y_unit: "ns".to_owned(),
        lines: vec![Line {
            series: 0,
            name: "a load from DRAM".to_owned(),
            values,
            points: told,
        }],
        low: false,
    };
    let note = "Both points are inputs: the queue's length follows from them.";
    Some(figure(
        "Fig. 3",
        "what a load from DRAM takes",
        note,
        lines,
        &[],
    ))
}

fn five(facts: &Facts<'_>) -> Option<Figure> {
    let of = |machine| Series::on(machine, Who::Baseline, 1.0, 4096);
    let drawn: Vec<Drawn<'_>> = vec![
        (
            "same controller",
            of("optane-1s"),
            COPY,
            points([(14.0, facts.told("P19", Reading::Loss, 0))]),
        ),
        (
            "different controllers",
            of("optane-1s-dimc"),
            COPY,
            points([(14.0, facts.told("P17", Reading::Loss, 0))]),
        ),
    ];
    let lines = beside(facts, drawn, "copy, of none beside it", 0.0)?;
    let note = "The knees, 3 and 7 threads, and the point of different controllers are inputs.";
    let title = "a copy beside readers, on one memory controller and on two";
    Some(figure("Fig. 5", title, note, lines, &["P19"]))
}

fn six(facts: &Facts<'_>) -> Option<Figure> {
    let named = [
        ("64 B", 64),
        ("256 B", 256),
        ("512 B", 512),
        ("1 KB", 1024),
        ("4 KB", 4096),
    ];
    let drawn = named.map(|(name, bytes)| {
        let drawn: Drawn<'_> = (name, Series::writes(Who::Baseline, bytes), COPY, Vec::new());
        drawn
    });
    let lines = beside(facts, drawn.to_vec(), "copy, of none beside it", 0.0)?;
    Some(figure(
        "Fig. 6",
        "a copy beside writers of different sizes",
        "",
        lines,
        &["P20"],
    ))
}

fn seven(facts: &Facts<'_>) -> Option<Figure> {
    let drawn: Vec<Drawn<'_>> = vec![
        (
            "beside writers",
            Series::writes(Who::Baseline, 4096),
            COPY,
            points([
                (8.0, facts.told("P11", Reading::Loss, 0)),
                (14.0, facts.told("P13", Reading::Share, 0)),
            ]),
        ),
        (
            "beside readers",
            Series::on("optane-1s", Who::Baseline, 1.0, 4096),
            COPY,
            Vec::new(),
        ),
    ];
    let lines = beside(facts, drawn, "copy, of none beside it", 0.0)?;
    let title = "a copy beside readers and beside writers";
    let note = "The points are those of Fig. 4b, the same copy beside writers.";
    Some(figure(
        "Figs. 4 and 7",
        title,
        note,
        lines,
        &["P08", "P11", "P13", "P32"],
    ))
}

fn eight(facts: &Facts<'_>) -> Option<Figure> {
    let named = [
        ("1 DIMM", "optane-1s"),
        ("2 interleaved", "optane-1s-2i"),
        ("3 interleaved", "optane-1s-3i"),
    ];
    let drawn = named.map(|(name, machine)| {
        let series = Series::on(machine, Who::Baseline, 0.0, 4096);
        let drawn: Drawn<'_> = (name, series, COPY, Vec::new());
        drawn
    });
    let lines = beside(facts, drawn.to_vec(), "copy, of none beside it", 0.0)?;
    Some(figure(
        "Fig. 8a",
        "a copy beside writers of more DIMMs",
        "",
        lines,
        &["P24"],
    ))
}

fn ten(facts: &Facts<'_>) -> Option<Figure> {
    let of = |who, bytes| Series::writes(who, bytes);
    let drawn: Vec<Drawn<'_>> = vec![
        (
            "nobody decides, 4 KB",
            of(Who::Baseline, 4096),
            COPY,
            Vec::new(),
        ),
        ("PATS, 256 B", of(DEFAULT, 256), COPY, Vec::new()),
        ("PATS, 512 B", of(DEFAULT, 512), COPY, Vec::new()),
        (
            "PATS, 4 KB",
            of(DEFAULT, 4096),
            COPY,
            points([(14.0, facts.told("P34", Reading::Loss, 0))]),
        ),
    ];
    let lines = beside(facts, drawn, "copy, of none beside it", 0.0)?;
    let note = "The point is a bound.";
    let ids = &["P30", "P31", "P33", "P34"];
    Some(figure("Fig. 10", "the copy under PATS", note, lines, ids))
}

fn twelve(facts: &Facts<'_>) -> Option<Figure> {
    let line = |(series, (name, who, bytes, point)): (usize, Writes<'_>)| {
        let values = Series::writes(who, bytes).curve(facts.results, PERSISTENT)?;
        let with_some = values.iter().filter(|(x, _)| *x > 0.0);
        Some(Line {
            series,
            name: name.to_owned(),
            values: with_some.map(|(x, y)| (*x, y / BYTES_PER_GB)).collect(),
            points: point,
        })
    };
    let baseline = Series::writes(Who::Baseline, 4096).persistent(facts.results, MAX_THREADS)?;
    let gain = facts.told("P38", Reading::Plain, 0)?;
    let drawn = [
        ("nobody decides, 4 KB", Who::Baseline, 4096, Vec::new()),
        (
            "PATS, 4 KB",
            DEFAULT,
            4096,
            vec![(14.0, gain * baseline / BYTES_PER_GB)],
        ),
        ("nobody decides, 512 B", Who::Baseline, 512, Vec::new()),
        ("PATS, 512 B", DEFAULT, 512, Vec::new()),
    ];
    let lines: Option<Vec<Line>> = drawn.into_iter().enumerate().map(line).collect();
    let lines = Lines {
        x_unit: THREADS.to_owned(),
        y_unit: "GB/s".to_owned(),
        lines: lines?,
        low: false,
    };
    let ids = &["P37", "P38", "P39", "P40", "P41", "P42"];
    let note = "The point is 1.6 times the model's own baseline: the paper gives no GB/s.";
    Some(figure(
        "Fig. 12",
        "writes of persistent memory under PATS",
        note,
        lines,
        ids,
    ))
}

/// One curve divided by another.
fn gain(facts: &Facts<'_>, over: &Series, under: &Series, what: &str) -> Option<Vec<(f64, f64)>> {
    let (over, under) = (
        over.curve(facts.results, what)?,
        under.curve(facts.results, what)?,
    );
    let both = over.iter().zip(under).filter(|(over, _)| over.0 > 0.0);
    Some(
        both.map(|(over, under)| (over.0, over.1 / under.1))
            .collect(),
    )
}

fn thirteen(facts: &Facts<'_>) -> Option<Figure> {
    let named = [
        ("1 DIMM", "optane-1s", "P46"),
        ("2 interleaved", "optane-1s-2i", "P45"),
    ];
    let line = |(series, (name, machine, id)): (usize, (&str, &'static str, &str))| {
        let of = |who| Series::on(machine, who, 0.0, 4096);
        Some(Line {
            series,
            name: name.to_owned(),
            values: gain(facts, &of(DEFAULT), &of(Who::Baseline), COPY)?,
            points: points([(6.0, facts.told(id, Reading::Plain, 0))]),
        })
    };
    let lines: Option<Vec<Line>> = named.into_iter().enumerate().map(line).collect();
    let lines = Lines {
        x_unit: THREADS.to_owned(),
        y_unit: "times nobody's".to_owned(),
        lines: lines?,
        low: false,
    };
    let ids = &["P44", "P45", "P46", "P47"];
    Some(figure(
        "Fig. 13b",
        "the copy under PATS, beside nobody",
        "",
        lines,
        ids,
    ))
}

fn fourteen(facts: &Facts<'_>) -> Option<Figure> {
    let default = Series::writes(DEFAULT, 512);
    let line = |(series, (name, who, what, point)): (usize, (&str, Who, &str, Option<f64>))| {
        Some(Line {
            series,
            name: name.to_owned(),
            values: gain(facts, &Series::writes(who, 512), &default, what)?,
            points: points([(14.0, point)]),
        })
    };
    let drawn = [
        ("copy, 0.1 less", LESS, COPY, facts.change("P48")),
        ("copy, 0.1 more", MORE, COPY, facts.change("P50")),
        ("writes, 0.1 less", LESS, PERSISTENT, facts.change("P49")),
        ("writes, 0.1 more", MORE, PERSISTENT, facts.change("P51")),
    ];
    let lines: Option<Vec<Line>> = drawn.into_iter().enumerate().map(line).collect();
    let lines = Lines {
        x_unit: THREADS.to_owned(),
        y_unit: "times T_mc 0.2".to_owned(),
        lines: lines?,
        low: false,
    };
    let note = "Eq. 1 sets the same limit, 2, for writes at T_mc 0.1 and 0.2, and at 0.3: 3. The paper's differences are \
         drawn at 14 threads; it says \"up to\".";
    let ids = &["P48", "P49", "P50", "P51"];
    Some(figure("Fig. 14", "T_mc, writes of 512 B", note, lines, ids))
}
