//! A recording for people.

use egeria_machine::{format_bandwidth, format_bytes};

use super::totals::{Summary, ThreadTotal};
use super::view::{Shown, View};
use crate::commands::control::recording;
use egeria_cli::failure::Outcome;
use egeria_cli::output;

const NS_PER_S: f64 = 1e9;

/// Windows of one table: more are shown in several, so that memory stays bounded.
const TABLE_WINDOWS: usize = 500;

/// Most threads shown.
const SHOWN_THREADS: usize = 1000;

/// Prints header, windows, threads if wanted, and summary.
pub(super) fn print(view: &View<'_>) -> Outcome {
    output::print_text(&format!("{}\n", view.label.text(&view.machine)))?;
    let mut reader = recording::again(view.file, &view.machine)?;
    let mut rows = Vec::new();
    for window in view.windows(&mut reader) {
        rows.push(row(&window?, view.totals.start_ns));
        if rows.len() == TABLE_WINDOWS {
            print_table(&window_headers(view), std::mem::take(&mut rows))?;
        }
    }
    if !rows.is_empty() {
        print_table(&window_headers(view), rows)?;
    }
    if view.threads {
        print_threads(&view.totals.threads())?;
    }
    output::print_text(&summary(&view.totals.summary()))
}

fn print_table<H: AsRef<str>>(headers: &[H], rows: Vec<Vec<String>>) -> Outcome {
    output::print_text(&format!("{}\n\n", output::table(headers, rows)))
}

fn window_headers(view: &View<'_>) -> Vec<String> {
    let fixed = [">window", ">from", ">length", ">threads", ">local"];
    let mut headers: Vec<String> = fixed.map(str::to_owned).into();
    for node in &view.machine.nodes {
        let id = node.id.0;
        headers.push(format!(">node {id}: read"));
        headers.extend([">written".to_owned(), ">cpu".to_owned()]);
    }
    headers
}

fn row(window: &Shown, start_ns: u64) -> Vec<String> {
    let mut cells = vec![
        window.number.to_string(),
        seconds(window.start_ns.saturating_sub(start_ns)),
        seconds(window.duration_ns),
        window.threads.to_string(),
        percent(window.local_share),
    ];
    for node in &window.nodes {
        cells.push(format_bandwidth(node.read_bytes_s));
        cells.push(format_bandwidth(node.written_bytes_s));
        cells.push(percent(Some(node.cpu_share)));
    }
    cells
}

fn print_threads(threads: &[ThreadTotal]) -> Outcome {
    if threads.is_empty() {
        return Ok(());
    }
    let headers = [
        ">thread", ">process", "name", ">windows", ">read", ">written", ">cpu", ">local", ">node",
        ">changes", "cpus", "",
    ];
    let shown = &threads[..threads.len().min(SHOWN_THREADS)];
    print_table(&headers, shown.iter().map(thread_row).collect())?;
    match threads.len() - shown.len() {
        0 => Ok(()),
        more => output::print_text(&format!("… {more} more: --json shows all\n\n")),
    }
}

fn thread_row(thread: &ThreadTotal) -> Vec<String> {
    let busy = thread.busy_ns as f64 / (thread.duration_ns as f64).max(1.0);
    let remarks = [
        (thread.pinned, "pinned"),
        (thread.is_shared, "shares a file"),
    ];
    let remarks = remarks.iter().filter(|remark| remark.0);
    let remarks: Vec<&str> = remarks.map(|remark| remark.1).collect();
    vec![
        thread.key.thread_id.to_string(),
        thread.key.process_id.to_string(),
        thread.name.clone(),
        thread.windows.to_string(),
        format_bytes(thread.read_bytes),
        format_bytes(thread.written_bytes),
        percent(Some(busy)),
        percent(thread.local_share),
        thread.node.0.to_string(),
        thread.node_changes.to_string(),
        thread.allowed_cpus.to_string(),
        remarks.join(", "),
    ]
}

fn summary(summary: &Summary) -> String {
    let local = summary.local_share.map(|_| percent(summary.local_share));
    let local = local.map(|local| format!(", {local} of it on the thread's node"));
    format!(
        "{} windows, {}; {} threads, at most {} at a time; {} read and {} written{}\n",
        summary.windows,
        seconds(summary.duration_ns),
        summary.threads,
        summary.max_threads,
        format_bytes(summary.read_bytes),
        format_bytes(summary.written_bytes),
        local.unwrap_or_default(),
    )
}

fn seconds(time_ns: u64) -> String {
    format!("{:.3} s", time_ns as f64 / NS_PER_S)
}

fn percent(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{:.0} %", share * 100.0))
}
