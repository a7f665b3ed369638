//! The figures, as JSON, as a table and as a page.

use egeria_report::chart::Bar;
use maud::Markup;
use serde::Serialize;

use super::amplification::Amplification;
use super::plan::{Found, LARGE_BYTES, Layout, Point, SMALL_BYTES, Sharing};
use crate::colors;
use crate::experiment::{Column, group, over, page_of, picture, table};

/// One point: medians over the rounds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OdinRow {
    pub nodes: usize,
    /// `one_node`, `spread`, `striped`, or `delegated`: striped, and the planner decides whether delegates access it.
    pub layout: String,
    /// Threads of fio.
    pub threads: usize,
    pub request_bytes: u64,
    /// `read` or `write`.
    pub op: String,
    /// Whether all threads use one file.
    pub shared_file: bool,
    /// Whether they use the whole of it, so that ranges overlap; else each has a part of its own.
    pub overlapping: bool,
    /// What they moved, bytes/s of machine time.
    pub bytes_s: f64,
    /// The same, as times that of all data on one node; none where that was not run.
    pub of_one_node: Option<f64>,
    /// The same, as times that of whole files on the nodes in turn; none where that was not run.
    pub of_spread: Option<f64>,
    /// Delegates per node that the planner chose; 0: accesses are direct.
    pub delegates: u8,
    /// Bytes that the media wrote per byte moved: whole grains, and directories that remote reads change. What more they
    /// write because too many threads write at once is in the medium's curve.
    pub medium_written: f64,
}

/// On the most nodes, striped beside all data on one.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OdinSummary {
    pub nodes: usize,
    /// Writes of 2 MiB.
    pub write_2m: f64,
    /// Reads of 2 MiB.
    pub read_2m: f64,
    /// Writes of 4 KiB.
    pub write_4k: f64,
    /// Reads of 4 KiB.
    pub read_4k: f64,
    /// Writers of disjoint parts of one striped file on all nodes, as times one writer of it.
    pub shared_file: f64,
    /// Writers of 4 KiB anywhere in one striped file, as times the same on one node.
    pub contended: Option<f64>,
    /// Bytes stored per byte written to a striped file.
    pub amplification: f64,
    /// Bytes that media write per byte written to a striped file, by direct access: whole grains of all stores.
    pub medium_amplification: f64,
    /// The same by delegates.
    pub delegated_medium_amplification: f64,
    /// Striped, as times whole files on the nodes in turn.
    pub of_spread: Option<OdinRequests>,
    /// Striped with the planner, as times all data on one node.
    pub planned: Option<OdinRequests>,
    /// Striped with the planner, as times whole files on the nodes in turn.
    pub planned_of_spread: Option<OdinRequests>,
    /// Striped with the planner, as times direct access.
    pub delegated: Option<OdinDelegated>,
}

/// All threads, requests of 2 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OdinRequests {
    /// Writes.
    pub write_2m: f64,
    /// Reads.
    pub read_2m: f64,
}

/// Requests of 2 MiB on striped files with the planner, as times direct access.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct OdinDelegated {
    /// Writes of all threads.
    pub write_2m: f64,
    /// Reads of all threads.
    pub read_2m: f64,
    /// Writes of a single thread; none where that was not run.
    pub one_thread_write_2m: Option<f64>,
    /// Reads of a single thread.
    pub one_thread_read_2m: Option<f64>,
}

/// Result of [`super::run`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OdinReport {
    /// What counts most.
    pub summary: Option<OdinSummary>,
    pub rows: Vec<OdinRow>,
    /// Where the figures come from.
    pub emulated: bool,
    /// Rounds the medians are over.
    #[serde(skip)]
    pub rounds: usize,
}

impl OdinReport {
    pub(super) fn of(
        points: &[Point],
        found: &[Vec<Found>],
        amplification: Amplification,
        rounds: usize,
    ) -> OdinReport {
        let bytes_s = |index: usize| over(&found[index], |found| found.moved.bytes_s());
        let row = |(index, point): (usize, &Point)| {
            let of = |layout: Layout| {
                let baseline = Point { layout, ..*point };
                let baseline = points.iter().position(|other| *other == baseline);
                baseline.map(|other| bytes_s(index) / bytes_s(other))
            };
            OdinRow {
                nodes: point.nodes,
                layout: point.layout.name().to_owned(),
                threads: point.threads,
                request_bytes: point.request_bytes,
                op: if point.reads { "read" } else { "write" }.to_owned(),
                shared_file: point.sharing != Sharing::Own,
                overlapping: point.sharing == Sharing::Whole,
                bytes_s: bytes_s(index),
                of_one_node: of(Layout::OneNode),
                of_spread: of(Layout::Spread),
                delegates: over(&found[index], |found| found.delegates.into()) as u8,
                medium_written: over(&found[index], |found| found.moved.medium_written),
            }
        };
        let rows: Vec<OdinRow> = points.iter().enumerate().map(row).collect();
        OdinReport {
            summary: summary(&rows, amplification),
            rows,
            emulated: true,
            rounds,
        }
    }

    /// A table for people, with a line that says what it shows.
    pub fn table(&self) -> String {
        let columns: &[Column<OdinRow>] = &[
            (">nodes", |row| row.nodes.to_string()),
            ("data", |row| row.layout.replace('_', " ")),
            (">threads", |row| row.threads.to_string()),
            (">request", |row| size(row.request_bytes)),
            ("", |row| row.op.clone()),
            ("file", |row| {
                let file = match (row.shared_file, row.overlapping) {
                    (false, _) => "own",
                    (true, false) => "shared",
                    (true, true) => "shared, overlapping",
                };
                file.to_owned()
            }),
            (">delegates", |row| match row.delegates {
                0 => "–".to_owned(),
                delegates => delegates.to_string(),
            }),
            (">GB/s", |row| format!("{:.2}", row.bytes_s / 1e9)),
            (">of one node", |row| ratio(row.of_one_node)),
            (">of spread", |row| ratio(row.of_spread)),
            (">medium writes", |row| format!("{:.2}", row.medium_written)),
        ];
        table(columns, &self.rows, &self.words())
    }

    fn words(&self) -> String {
        let head = format!(
            "An emulated machine (odin-8s), {}; nothing was measured on persistent memory.",
            match self.rounds {
                1 => "one round".to_owned(),
                rounds => format!("medians of {rounds} rounds"),
            }
        );
        match &self.summary {
            None => head,
            Some(all) => format!("{head} {}", all.words()),
        }
    }

    /// The figure for other pages.
    pub fn picture(&self) -> Markup {
        let most = self.rows.iter().map(|row| row.nodes).max().unwrap_or(0);
        let is_shown = |row: &&OdinRow| row.nodes == most && !row.shared_file && row.threads > 1;
        let mine: Vec<&OdinRow> = self.rows.iter().filter(is_shown).collect();
        let bar = |row: &&OdinRow| Bar {
            color: match row.layout.as_str() {
                "one_node" => colors::NOVA,
                "spread" => colors::NOVA_N,
                "delegated" => colors::LOCAL,
                _ => colors::EMULATED,
            },
            value: row.bytes_s / 1e9,
            label: format!(
                "{:.1} GB/s, {} ×",
                row.bytes_s / 1e9,
                times(row.of_one_node)
            ),
            mark: None,
        };
        let groups = mine.chunk_by(|one, other| {
            (one.op.as_str(), one.request_bytes) == (other.op.as_str(), other.request_bytes)
        });
        let groups = groups.map(|rows| {
            let name = format!("{} of {}", row_words(rows[0]), size(rows[0].request_bytes));
            group(name, rows.iter().map(bar).collect())
        });
        picture(
            Some("odin"),
            &format!("fio on {most} nodes by where data lies (emulated)"),
            &[
                (colors::NOVA, "all data on one node"),
                (colors::NOVA_N, "files on the nodes in turn"),
                (colors::EMULATED, "striped"),
                (colors::LOCAL, "striped, by delegates"),
            ],
            groups.collect(),
            "Bandwidth by layout, sizes and directions",
        )
    }

    /// A page of its own.
    pub fn page(&self) -> String {
        let title = "OdinFS on an emulated machine";
        page_of(
            title,
            "OdinFS",
            &self.words(),
            &self.picture(),
            &self.table(),
        )
    }
}

impl OdinSummary {
    fn words(&self) -> String {
        let mut words = vec![
            format!(
                "{} nodes, striped, as times all data on one node: writes of 2 MiB {:.1}, reads {:.1}; of 4 KiB {:.1} and {:.1}.",
                self.nodes, self.write_2m, self.read_2m, self.write_4k, self.read_4k
            ),
            format!(
                "Writers of parts of one file on all nodes: {:.1} times one. {:.3} bytes stored per byte; media write {:.3}, by delegates {:.3}.",
                self.shared_file,
                self.amplification,
                self.medium_amplification,
                self.delegated_medium_amplification
            ),
        ];
        if let Some(spread) = self.of_spread {
            words.push(format!(
                "As times whole files on the nodes in turn: writes of 2 MiB {:.2}, reads {:.2}.",
                spread.write_2m, spread.read_2m
            ));
        }
        if let Some(contended) = self.contended {
            words.push(format!(
                "Writers of 4 KiB anywhere in one file: {contended:.1} times one node."
            ));
        }
        words.extend(self.planned_words());
        words.join(" ")
    }

    fn planned_words(&self) -> Option<String> {
        let (planned, delegated) = (self.planned?, self.delegated?);
        let mut words = format!(
            "With the planner: writes of 2 MiB {:.1} and reads {:.1} times one node (OdinFS's slides, 224 threads, compared with other file systems: {PAPER_WRITE} and {PAPER_READ}); {:.2} and {:.2} times direct access",
            planned.write_2m, planned.read_2m, delegated.write_2m, delegated.read_2m,
        );
        if let Some(spread) = self.planned_of_spread {
            words += &format!(
                "; {:.2} and {:.2} times files on the nodes in turn",
                spread.write_2m, spread.read_2m
            );
        }
        if let (Some(write), Some(read)) =
            (delegated.one_thread_write_2m, delegated.one_thread_read_2m)
        {
            words += &format!("; of one thread {write:.2} and {read:.2} times direct access");
        }
        Some(words + ".")
    }
}

/// OdinFS's slides, "OdinFS performance": what it gains on 8 sockets with 224 threads.
const PAPER_WRITE: &str = "14.8";
const PAPER_READ: &str = "24.7";

fn ratio(value: Option<f64>) -> String {
    value.map_or("–".to_owned(), |value| format!("{value:.2}"))
}

fn times(value: Option<f64>) -> String {
    value.map_or("–".to_owned(), |value| format!("{value:.1}"))
}

fn row_words(row: &OdinRow) -> &'static str {
    match row.op.as_str() {
        "read" => "reads",
        _ => "writes",
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        LARGE_BYTES => "2 MiB".to_owned(),
        SMALL_BYTES => "4 KiB".to_owned(),
        other => other.to_string(),
    }
}

/// Rows of one summary: all of the same nodes.
struct Rows<'a>(Vec<&'a OdinRow>);

impl Rows<'_> {
    fn find(&self, layout: &str, op: &str, request_bytes: u64, is_one: bool) -> Option<&OdinRow> {
        let is_it = |row: &&&OdinRow| {
            (row.layout.as_str(), row.op.as_str()) == (layout, op)
                && row.request_bytes == request_bytes
                && (row.threads == 1) == is_one
                && !row.shared_file
        };
        self.0.iter().find(is_it).copied()
    }

    /// What all writers of parts of one file get, as times one of them.
    fn shared_file(&self) -> Option<f64> {
        let parts = |row: &&&OdinRow| row.shared_file && !row.overlapping;
        let shared = self.0.iter().filter(parts);
        let (one, all): (Vec<&OdinRow>, Vec<&OdinRow>) = shared.partition(|row| row.threads == 1);
        Some(all.first()?.bytes_s / one.first()?.bytes_s)
    }

    fn contended(&self) -> Option<f64> {
        let rows = self.0.iter();
        let mut striped = rows.filter(|row| row.overlapping && row.layout == "striped");
        striped.next()?.of_one_node
    }

    fn requests(&self, layout: &str, figure: fn(&OdinRow) -> Option<f64>) -> Option<OdinRequests> {
        let of = |op| figure(self.find(layout, op, LARGE_BYTES, false)?);
        Some(OdinRequests {
            write_2m: of("write")?,
            read_2m: of("read")?,
        })
    }

    fn delegated(&self) -> Option<OdinDelegated> {
        let of = |op, is_one| {
            let bytes_s = |layout| Some(self.find(layout, op, LARGE_BYTES, is_one)?.bytes_s);
            Some(bytes_s("delegated")? / bytes_s("striped")?)
        };
        Some(OdinDelegated {
            write_2m: of("write", false)?,
            read_2m: of("read", false)?,
            one_thread_write_2m: of("write", true),
            one_thread_read_2m: of("read", true),
        })
    }
}

fn summary(rows: &[OdinRow], amplification: Amplification) -> Option<OdinSummary> {
    let nodes = rows.iter().map(|row| row.nodes).max()?;
    let rows = Rows(rows.iter().filter(|row| row.nodes == nodes).collect());
    let striped = |op, request_bytes| rows.find("striped", op, request_bytes, false)?.of_one_node;
    Some(OdinSummary {
        nodes,
        write_2m: striped("write", LARGE_BYTES)?,
        read_2m: striped("read", LARGE_BYTES)?,
        write_4k: striped("write", SMALL_BYTES)?,
        read_4k: striped("read", SMALL_BYTES)?,
        shared_file: rows.shared_file()?,
        contended: rows.contended(),
        amplification: amplification.stored,
        medium_amplification: amplification.medium,
        delegated_medium_amplification: amplification.delegated_medium,
        of_spread: rows.requests("striped", |row| row.of_spread),
        planned: rows.requests("delegated", |row| row.of_one_node),
        planned_of_spread: rows.requests("delegated", |row| row.of_spread),
        delegated: rows.delegated(),
    })
}
