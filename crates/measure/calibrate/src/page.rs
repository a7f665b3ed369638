//! The figures as a page.

use egeria_machine::{Machine, format_bytes};
use egeria_report::chart::{Line, Lines};
use egeria_report::page::{facts, figure, page};
use egeria_report::table::{heading, number, table};
use maud::{Markup, html};

use crate::differences::Difference;
use crate::figures::{Calibration, Latency, Stream};

const GB: f64 = 1e9;
/// Rows of figures beside their file that are shown.
const SHOWN: usize = 20;

/// One of the figures of a stream.
type Figure = fn(&Stream) -> f64;

/// What is drawn of each memory.
const SERIES: [(&str, Figure); 4] = [
    ("loads", |stream| stream.read_bytes_s),
    ("stores", |stream| stream.write_bytes_s),
    ("non-temporal stores", |stream| {
        stream.nontemporal_write_bytes_s
    }),
    ("half loads, half non-temporal stores", |stream| {
        stream.mixed_bytes_s
    }),
];

impl Calibration {
    /// A page of what was found. `machine` is what it is described as; `beside` are the figures of its file where there is one,
    /// the farthest first.
    pub fn page(&self, machine: &Machine, beside: &[Difference]) -> String {
        let title = format!("Calibration of {}", machine.name);
        let body = html! {
            h1 { (title) }
            (self.summary())
            pre { (machine.picture().trim_end()) }
            h2 { "Bandwidth by threads" }
            @for memory in 0..self.memories.len() { (self.chart(machine, memory)) }
            h2 { "Time that one CPU waits for a line, ns" }
            (self.latency_table())
            @if !self.pairs.is_empty() {
                h2 { "Ways between nodes, GB/s" }
                p { "From the node of the row to that of the column, alone." }
                (ways(machine))
            }
            @if !beside.is_empty() {
                h2 { "Compared with the file" }
                (differences(beside))
            }
            @if !self.warnings.is_empty() {
                h2 { "Warnings" }
                ul { @for warning in &self.warnings { li { (warning) } } }
            }
        };
        page(&title, "", &body)
    }

    fn summary(&self) -> Markup {
        let buffer = match self.buffer_bytes {
            0 => "emulated".to_owned(),
            bytes => format!("{} of each memory", format_bytes(bytes)),
        };
        let spread = self.spread.map_or_else(
            || "not known: there was one round".to_owned(),
            |share| format!("{:.1} % (median of all figures)", share * 100.0),
        );
        facts(&[
            ("measured", buffer),
            ("rounds", self.rounds.to_string()),
            ("rounds of a figure differ by", spread),
            ("time", format!("{:.0} s", self.measured_s)),
            ("streams", self.streams.len().to_string()),
        ])
    }

    /// What the nearest CPUs got of a memory, by their number.
    fn chart(&self, machine: &Machine, memory: usize) -> Markup {
        let of = &self.memories[memory];
        let Some(home) = self.nearest(machine, of.node) else {
            return html! {};
        };
        let streams = self.streams.iter();
        let streams: Vec<&Stream> = streams
            .filter(|stream| (stream.cpu_node, stream.memory) == (home, memory))
            .collect();
        let line = |(series, (name, value)): (usize, &(&str, Figure))| Line {
            series,
            name: (*name).to_owned(),
            values: (streams.iter())
                .map(|stream| (f64::from(stream.threads), value(stream) / GB))
                .collect(),
            points: Vec::new(),
        };
        let lines = Lines {
            x_unit: "threads".to_owned(),
            y_unit: "GB/s".to_owned(),
            lines: SERIES.iter().enumerate().map(line).collect(),
            low: true,
        };
        let title = format!("{}, from node {}", of.name(), home.0);
        let picture = lines.draw(&format!("Bandwidth of {title}, by the number of threads"));
        figure(None, &title, &lines.keys(), &picture, &html! {})
    }

    fn latency_table(&self) -> Markup {
        let row = |latency: &Latency| {
            vec![
                heading(self.memories[latency.memory].name()),
                number(latency.cpu_node.0.to_string()),
                number(format!("{:.1}", latency.read_ns)),
                number(format!("{:.1}", latency.write_ns)),
            ]
        };
        let rows: Vec<_> = self.latencies.iter().map(row).collect();
        table(
            &["memory", "from node", "a load", "a non-temporal store"],
            &rows,
        )
    }
}

fn ways(machine: &Machine) -> Markup {
    let Ok(Some(paths)) = machine.paths() else {
        return html! {};
    };
    let nodes = machine.nodes.len();
    let mut headers = vec!["from".to_owned()];
    headers.extend(machine.nodes.iter().map(|node| node.id.0.to_string()));
    let row = |from: usize| {
        let mut cells = vec![heading(machine.nodes[from].id.0.to_string())];
        cells.extend((0..nodes).map(|to| {
            number(if from == to {
                String::new()
            } else {
                format!("{:.1}", paths.widest_bytes_s(from, to) / GB)
            })
        }));
        cells
    };
    table(&headers, &(0..nodes).map(row).collect::<Vec<_>>())
}

fn differences(beside: &[Difference]) -> Markup {
    let row = |difference: &Difference| {
        let [what, declared, measured, distance] = difference.cells();
        vec![
            heading(what),
            number(declared),
            number(measured),
            number(distance),
        ]
    };
    let rows: Vec<_> = beside.iter().take(SHOWN).map(row).collect();
    html! {
        p { "The " (rows.len()) " of " (beside.len()) " figures that are farthest from what the file says." }
        (table(&["figure", "file", "measured", "distance"], &rows))
    }
}
