//! The report of `egeria sim`: systems side by side, where data went over time, which threads moved and why.

use egeria_sim::{Outcome, Range, WindowOutcome, Workload, used_lanes};
use maud::{Markup, html};

use crate::chart::{Bands, Color, Column, ColumnGroup, Columns, Line, Lines};
use crate::page::{figure, folded, key, page};
use crate::table::{number, table, text};

const BYTES_PER_GB: f64 = 1e9;
/// Lanes drawn: those that were used most at some moment.
const DRAWN_LANES: usize = 8;
/// Moves and steps shown per system.
const MAX_DECISIONS: usize = 200;
/// Moments drawn: more windows are thinned out.
const MOMENTS: usize = 600;
const SECONDS: &str = "s of the machine's time";

/// What was predicted: a workload on a machine under several systems.
#[derive(Clone, Copy, Debug)]
pub struct WhatIf<'a> {
    /// The machine's name.
    pub machine: &'a str,
    pub workload: &'a Workload,
    /// Where written data went.
    pub allocation: &'a str,
    /// Each system; the first is what the others are compared with.
    pub systems: &'a [Prediction<'a>],
}

/// What is predicted of one system.
#[derive(Clone, Copy, Debug)]
pub struct Prediction<'a> {
    pub name: &'a str,
    /// What comes of it.
    pub outcome: &'a Outcome,
    /// Where four of five such predictions were right, bytes/s.
    pub bytes_s_range: Range,
    /// Its operations/s divided by those of the first system.
    pub vs_first: f64,
    /// The range of that in which four of five such predictions were right.
    pub vs_first_range: Range,
    /// Whether that leaves no doubt which of the two is faster.
    pub is_decided: bool,
}

/// The page: one file that needs nothing but itself.
pub fn what_if(what: &WhatIf<'_>) -> String {
    let title = format!("{} on {}", what.workload.name, what.machine);
    let body = html! {
        header {
            h1 { (title) }
            p.verdict { "Predicted by a model, not measured." }
            p {
                (what.workload.seconds) " s of the machine's time, the first " (what.workload.warm_up_seconds)
                " s not counted; written data goes " (describe_allocation(what.allocation)) "."
            }
        }
        (compared(what))
        @for each in what.systems { (system(what, each.name, each.outcome)) }
    };
    page(&title, "", &body)
}

fn describe_allocation(allocation: &str) -> String {
    match allocation {
        "local" => "to the writer's node".to_owned(),
        "random" => "to all nodes alike".to_owned(),
        "striped" => "in stripes over all nodes".to_owned(),
        other => format!("to {}", other.replace('=', " ")),
    }
}

/// All systems compared.
fn compared(what: &WhatIf<'_>) -> Markup {
    if what.systems.is_empty() {
        return html! {};
    }
    let gb_s = |bytes_s: f64| format!("{:.2}", bytes_s / BYTES_PER_GB);
    let row = |(index, each): (usize, &Prediction<'_>)| {
        let (gain, speed) = (each.vs_first_range, each.bytes_s_range);
        let gain = match index {
            0 => String::new(),
            _ => format!("{:.2}x to {:.2}x", gain.low, gain.high),
        };
        vec![
            text(each.name),
            number(format!("{:.0}", each.outcome.operations_s)),
            number(format!("{:.2}x", each.vs_first)),
            number(gain),
            text(if each.is_decided { "" } else { "not decided" }),
            number(gb_s(each.outcome.bytes_s)),
            number(format!("{} to {}", gb_s(speed.low), gb_s(speed.high))),
            number(format!("{:.0} %", each.outcome.local_share * 100.0)),
            number(each.outcome.moves.to_string()),
        ]
    };
    let rows: Vec<_> = what.systems.iter().enumerate().map(row).collect();
    let headers = [
        "system",
        "operations/s",
        "times the first",
        "four of five times",
        "",
        "GB/s",
        "four of five times",
        "local",
        "moves",
    ];
    let group = |(index, each): (usize, &Prediction<'_>)| ColumnGroup {
        name: each.name.to_owned(),
        columns: vec![Column {
            series: 2,
            name: each.name.to_owned(),
            value: each.vs_first,
            range: match index {
                0 => None,
                _ => Some((each.vs_first_range.low, each.vs_first_range.high)),
            },
            point: None,
        }],
    };
    let columns = Columns {
        unit: "times the first".to_owned(),
        groups: what.systems.iter().enumerate().map(group).collect(),
    };
    let svg = columns.draw(
        "Operations per second of each system, as times those of the first, with the range in which four of five such \
         predictions were right; the table below has the numbers.",
    );
    let rows = table(&headers, &rows);
    let lead = html! {
        p.note {
            "A whisker is where four of five predictions of that kind were right, where there are measurements; \
             \"not decided\": it holds 1."
        }
    };
    figure(Some("compared"), "Operations/s", &lead, &svg, &rows)
}

/// One system over time.
fn system(what: &WhatIf<'_>, name: &str, outcome: &Outcome) -> Markup {
    let windows = thinned(&outcome.windows);
    html! {
        section {
            h2 { (name) }
            (nodes(name, &windows))
            (lanes(name, &windows))
            (threads(what, name, &windows))
            (decisions(outcome))
        }
    }
}

/// At most `MOMENTS` + 1 windows, the first and the last among them.
fn thinned(windows: &[WindowOutcome]) -> Vec<&WindowOutcome> {
    let every = windows.len().div_ceil(MOMENTS).max(1);
    let mut kept: Vec<&WindowOutcome> = windows.iter().step_by(every).collect();
    if let Some(last) = windows.last()
        && !(windows.len() - 1).is_multiple_of(every)
    {
        kept.push(last);
    }
    kept
}

/// A line over time for each of some series.
fn lines(
    names: &[String],
    windows: &[&WindowOutcome],
    y_unit: &str,
    value: impl Fn(usize, &WindowOutcome) -> f64,
) -> Lines {
    let line = |(series, name): (usize, &String)| Line {
        series,
        name: name.clone(),
        values: windows
            .iter()
            .map(|window| (window.end_s, value(series, window)))
            .collect(),
        points: Vec::new(),
    };
    Lines {
        x_unit: SECONDS.to_owned(),
        y_unit: y_unit.to_owned(),
        lines: names.iter().enumerate().map(line).collect(),
        low: true,
    }
}

fn keys(names: &[String]) -> Markup {
    html! { @for (series, name) in names.iter().enumerate() { (key(Color::Series(series), name)) } }
}

fn node_names(window: &WindowOutcome) -> Vec<String> {
    let nodes = window.nodes.iter();
    nodes.map(|node| format!("node {}", node.node.0)).collect()
}

/// What each node's memories gave and took.
fn nodes(system: &str, windows: &[&WindowOutcome]) -> Markup {
    let Some(first) = windows.first() else {
        return html! {};
    };
    let names = node_names(first);
    let read = lines(&names, windows, "read, GB/s", |node, window| {
        window.nodes[node].read_bytes_s / BYTES_PER_GB
    });
    let written = lines(&names, windows, "written, GB/s", |node, window| {
        window.nodes[node].written_bytes_s / BYTES_PER_GB
    });
    let busy = lines(&names, windows, "cores in use, %", |node, window| {
        window.nodes[node].busy_share * 100.0
    });
    let of = |lines: &Lines, words: &str| {
        lines.draw(&format!("{words} of each node over time, {system}"))
    };
    let pictures = [
        of(&read, "What was read from memory"),
        of(&written, "What was written to memory"),
        of(&busy, "Cores in use"),
    ];
    let id = format!("{system}-nodes");
    figure(
        Some(&id),
        "Nodes: memory and cores",
        &keys(&names),
        &html! { @for picture in pictures { (picture) } },
        &html! {},
    )
}

/// The links that were used most.
fn lanes(system: &str, windows: &[&WindowOutcome]) -> Markup {
    let Some(first) = windows.first().filter(|first| !first.lanes.is_empty()) else {
        return html! {};
    };
    let mut used = used_lanes(windows);
    let more = used.len().saturating_sub(DRAWN_LANES);
    used.truncate(DRAWN_LANES);
    if used.is_empty() {
        return html! {};
    }
    let name = |lane: &usize| {
        let lane = &first.lanes[*lane];
        format!("{} to {}", lane.from.0, lane.to.0)
    };
    let names: Vec<String> = used.iter().map(name).collect();
    let drawn = lines(
        &names,
        windows,
        "of what it carries, %",
        |series, window| window.lanes[used[series]].share * 100.0,
    );
    let svg = drawn.draw(&format!("Use of each link over time, {system}"));
    let below = html! { @if more > 0 { p.note { (more) " more carried less." } } };
    figure(
        Some(&format!("{system}-links")),
        "Links, each way",
        &keys(&names),
        &svg,
        &below,
    )
}

/// Where the threads of each group sat.
fn threads(what: &WhatIf<'_>, system: &str, windows: &[&WindowOutcome]) -> Markup {
    let Some(first) = windows.first() else {
        return html! {};
    };
    let names = node_names(first);
    let picture = |group: usize, program: &str| {
        let parts = |window: &&WindowOutcome| {
            let threads = window.groups.get(group);
            let threads = threads.map_or(&[][..], |group| &group.threads);
            let counts = threads.iter().map(|count| f64::from(*count)).collect();
            (window.end_s, counts)
        };
        let bands = Bands {
            x_unit: SECONDS.to_owned(),
            y_unit: "threads".to_owned(),
            names: names.clone(),
            stretches: windows.iter().map(parts).collect(),
        };
        bands.draw(&format!(
            "Threads of {program} on each node over time, {system}"
        ))
    };
    let pictures = html! {
        @for (group, program) in what.workload.threads.iter().enumerate() {
            p.note { (program.name) }
            (picture(group, &program.name))
        }
    };
    figure(
        Some(&format!("{system}-threads")),
        "Where threads sat",
        &keys(&names),
        &pictures,
        &html! {},
    )
}

/// Which threads moved when and why, and other decisions.
fn decisions(outcome: &Outcome) -> Markup {
    let shown = |window: &WindowOutcome| {
        let at = format!("{:.1}", window.end_s);
        let moves = window.moves.iter().map(|each| {
            let words = format!(
                "{} from node {} to node {}",
                each.thread, each.from.0, each.to.0
            );
            vec![number(at.clone()), text(words), text(each.why.clone())]
        });
        let steps = window.steps.iter().map(|step| {
            let (what, why) = step.split_once(": ").unwrap_or((step, ""));
            vec![number(at.clone()), text(what), text(why)]
        });
        moves.chain(steps).collect::<Vec<_>>()
    };
    let mut rows: Vec<_> = outcome.windows.iter().flat_map(shown).collect();
    if rows.is_empty() {
        return html! { p { "Nothing was decided." } };
    }
    let more = rows.len().saturating_sub(MAX_DECISIONS);
    rows.truncate(MAX_DECISIONS);
    let inside = html! {
        (table(&["s", "what", "why"], &rows))
        @if more > 0 { p.note { "and " (more) " more (" code { "--json" } " has all)" } }
    };
    folded("What was decided, when and why", true, &inside)
}
