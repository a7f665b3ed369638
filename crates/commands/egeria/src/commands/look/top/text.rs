//! One frame as plain text.

use egeria_machine::format_bandwidth;

use super::super::decision_log::Fate;
use super::super::explain::sentences::{ago, capital, milliseconds, percent, seconds};
use super::super::programs::{PROGRAM_HEADERS, ProgramRow};
use super::rows::{FileRow, NodeRow, ThreadRow};
use super::view::Frame;
use egeria_cli::output;
use egeria_steward::KindLine;

const BAR_CELLS: usize = 20;
const SHOWN_ACTIONS: usize = 5;
const SHOWN_FILES: usize = 20;
const SHOWN_PROCESSES: usize = 20;

/// The frame as text, for output that is redirected.
pub(super) fn human(frame: &Frame) -> String {
    let mut text = format!("{}\n{}\n", title(frame), state(frame));
    if let Some(estimate) = &frame.label.estimate {
        text.push_str(&format!("{estimate}\n"));
    }
    if let Some(note) = frame.label.note {
        text.push_str(&format!("{note}\n"));
    }
    if frame.window.is_none() {
        text.push_str("\nNo file was read or written yet.\n");
        return text;
    }
    let nodes = frame.nodes.iter().map(node_cells).collect();
    text.push('\n');
    text.push_str(&output::table(&NODE_HEADERS, nodes));
    text.push_str("\n\n");
    if !frame.programs.is_empty() {
        let programs = frame.programs.iter().map(ProgramRow::cells);
        text.push_str(&output::table(&PROGRAM_HEADERS, programs.collect()));
        text.push_str("\n\n");
    }
    let threads = frame.threads.iter().map(thread_cells).collect();
    text.push_str(&output::table(&THREAD_HEADERS, threads));
    if frame.threads_omitted > 0 {
        text.push_str(&format!("\n… and {} more", frame.threads_omitted));
    }
    if !frame.files.is_empty() {
        let files = frame.files.iter().take(SHOWN_FILES).map(file_cells);
        text.push_str("\n\n");
        text.push_str(&output::table(&FILE_HEADERS, files.collect()));
        if frame.files.len() > SHOWN_FILES {
            text.push_str(&format!("\n… and {} more", frame.files.len() - SHOWN_FILES));
        }
    }
    if !frame.kinds.is_empty() {
        let kinds = frame.kinds.iter().map(kind_cells).collect();
        text.push_str("\n\n");
        text.push_str(&output::table(&KIND_HEADERS, kinds));
    }
    if !frame.last_actions.is_empty() {
        text.push_str("\n\nLast actions, newest first:\n");
    }
    for event in frame.last_actions.iter().take(SHOWN_ACTIONS) {
        text.push_str(&event.report);
        text.push('\n');
    }
    let words = words_of_processes(frame);
    if !words.is_empty() {
        text.push_str("\n\nProcesses, and why they are left as they are:\n");
    }
    for words in words {
        text.push_str(&format!("{words}\n"));
    }
    text
}

/// What is said of processes, a line each: of memory that arrives, of those left as they are, and of short-lived ones.
pub(super) fn words_of_processes(frame: &Frame) -> Vec<String> {
    let arriving = frame.arriving.iter().map(|line| &line.sentence);
    let kept = frame.kept_processes.iter().map(|line| &line.sentence);
    let kinds = frame.kinds.iter().filter(|line| line.because.is_some());
    let kinds = kinds.map(|line| &line.sentence);
    arriving
        .chain(kept)
        .chain(kinds)
        .take(SHOWN_PROCESSES)
        .map(|words| capital(words))
        .collect()
}

/// What is shown: machine, policy, window.
pub(super) fn title(frame: &Frame) -> String {
    let label = &frame.label;
    let mut text = label.machine.clone().unwrap_or_else(|| "?".to_owned());
    if label.emulated {
        text.push_str(" (emulated)");
    }
    if let Some(policy) = &label.policy {
        text.push_str(&format!("  policy {policy}"));
    }
    if let Some(window_ns) = label.window_ns {
        text.push_str(&format!("  window {}", milliseconds(window_ns)));
    }
    text
}

/// How things stand.
pub(super) fn state(frame: &Frame) -> String {
    let mut text = String::new();
    if let Some(window) = &frame.window {
        text = format!(
            "at {}  local {}  threads {}  moves {}  ",
            seconds(window.end_ns()),
            percent(window.local_share),
            (frame.threads.len() as u64).saturating_add(frame.threads_omitted),
            frame.moves
        );
    }
    text.push_str(fate_words(frame.steward));
    if let Some(window) = &frame.window
        && frame.steward.is_some()
        && window.age().as_secs() > 1
    {
        text.push_str(&format!(", last window {} ago", ago(window.age())));
    }
    text
}

const NODE_HEADERS: [&str; 8] = [
    ">node", ">read", ">written", "memory", ">in use", "CPUs", ">busy", ">threads",
];

fn node_cells(row: &NodeRow) -> Vec<String> {
    let [reads, writes] = row.memory_cells(BAR_CELLS);
    let rest = BAR_CELLS - reads - writes;
    let busy = row.cpu_cells(BAR_CELLS / 2);
    vec![
        row.node.0.to_string(),
        format_bandwidth(row.read_bytes_s),
        format_bandwidth(row.written_bytes_s),
        format!(
            "{}{}{}",
            "R".repeat(reads),
            "W".repeat(writes),
            ".".repeat(rest)
        ),
        percent(row.used_share()),
        format!("{}{}", "#".repeat(busy), ".".repeat(BAR_CELLS / 2 - busy)),
        percent(Some(row.cpu_share)),
        row.threads.to_string(),
    ]
}

/// Headers of threads; `>`: to the right.
pub(super) const THREAD_HEADERS: [&str; 10] = [
    ">thread", ">process", "name", ">node", ">local", ">read", ">written", ">CPU", "shared",
    ">moves",
];

pub(super) fn thread_cells(row: &ThreadRow) -> Vec<String> {
    vec![
        row.thread.thread_id.to_string(),
        row.thread.process_id.to_string(),
        row.name.clone(),
        row.node.0.to_string(),
        percent(row.local_share),
        format_bandwidth(row.read_bytes_s),
        format_bandwidth(row.written_bytes_s),
        percent(Some(row.cpu_share)),
        if row.is_shared { "yes" } else { "" }.to_owned(),
        row.moves.to_string(),
    ]
}

const FILE_HEADERS: [&str; 6] = [
    "file",
    "on nodes",
    ">local",
    ">read locally",
    ">read remotely",
    ">written",
];

fn file_cells(row: &FileRow) -> Vec<String> {
    let path = match &row.path {
        Some(path) => path.clone(),
        None => format!("inode {}", row.inode),
    };
    let shares = row.shares.iter();
    let shares = shares.map(|(node, share)| format!("{}: {}", node.0, percent(Some(*share))));
    vec![
        path,
        shares.collect::<Vec<_>>().join(", "),
        percent(row.local_share),
        format_bandwidth(row.local_read_bytes_s),
        format_bandwidth(row.remote_read_bytes_s),
        format_bandwidth(row.written_bytes_s),
    ]
}

/// Headers of short-lived processes.
const KIND_HEADERS: [&str; 8] = [
    ">parent",
    "name",
    "short-lived",
    ">seen",
    ">local",
    ">read",
    ">written",
    ">CPU",
];

fn kind_cells(row: &KindLine) -> Vec<String> {
    vec![
        row.parent.process_id.to_string(),
        row.name.clone(),
        row.command.clone(),
        row.seen.to_string(),
        percent(row.local_share),
        format_bandwidth(row.read_bytes_s),
        format_bandwidth(row.written_bytes_s),
        percent(Some(row.cpu_share)),
    ]
}

/// The steward in a few words.
fn fate_words(fate: Option<Fate>) -> &'static str {
    match fate {
        None => "no steward",
        Some(Fate::Working) => "steward at work",
        Some(Fate::Stopped { .. }) => "steward stopped",
        Some(Fate::Killed) => "steward was killed",
        Some(Fate::Unknown) => "steward unknown",
    }
}
