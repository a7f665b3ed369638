//! Events as sentences.

use std::time::{Duration, SystemTime};

use egeria_facts::ThreadKey;
use egeria_machine::format_bandwidth;
use egeria_policy::Contention;
use egeria_policy::{ActionOutcome, ActionResult, Expectation, Move};
use egeria_steward::ResultLine;

use super::super::decision_log::{Fate, Head, unix_ns};
use super::document::Document;
use super::events::{ActionEvent, Event, StayEvent};
use super::totals::{Contended, Displaced, SeenThread, Summary};

/// More threads than this are counted, not named.
const NAMED_THREADS: usize = 8;

/// The whole document.
pub(super) fn all(document: &Document) -> String {
    let mut text = heading(document);
    for seen in &document.threads {
        text.push_str(&format!("\n{}\n", seen.sentence));
    }
    text.push('\n');
    match (document.left_out, document.events.as_slice()) {
        (0, []) => text.push_str("Nothing was done.\n"),
        (0, _) => {}
        (left_out, _) => text.push_str(&format!("… {left_out} earlier\n")),
    }
    for event in &document.events {
        text.push_str(match event {
            Event::Action(event) => &event.report,
            Event::Stay(event) => &event.sentence,
        });
        text.push('\n');
    }
    text.push('\n');
    text.push_str(&summary(&document.summary));
    text.push_str(&ending(document));
    text
}

fn heading(document: &Document) -> String {
    let log = &document.log;
    let Some(head) = &document.start else {
        return format!("{log} does not say whose it is: its first line is missing.\n");
    };
    let mut text = format!(
        "{}: policy {}, windows of {}, begun {} ago by process {} ({log})\n",
        match &head.volume {
            Some(volume) => format!("Volume {volume}"),
            None => "Processes".to_owned(),
        },
        head.policy,
        milliseconds(head.window_ns),
        age(head),
        head.process_id
    );
    if head.emulated {
        text.push_str(&format!(
            "Figures are emulated ({}): times and rates are that machine's own.\n",
            head.machine
        ));
    }
    if head.off.is_empty() {
        for each in &head.unavailable {
            text.push_str(&format!("Note: {each}.\n"));
        }
    }
    for each in &head.off {
        text.push_str(&format!("Note: {each}.\n"));
    }
    for each in &head.sources {
        text.push_str(&format!("Source: {each}.\n"));
    }
    if let Some(older) = &document.older_part {
        text.push_str(&format!("What came before: {}\n", older));
    }
    text
}

/// What one thread did over the log.
pub(super) fn seen(seen: &SeenThread) -> String {
    let read: f64 = seen.last.read_bytes_s.iter().sum();
    let written: f64 = seen.last.written_bytes_s.iter().sum();
    let shared = if seen.last.is_shared {
        "used a file that another thread used"
    } else {
        "shared no file"
    };
    format!(
        "{} was seen in {} from {} to {}, {} local. Last it was on node {}, read {}, wrote {}, {} local, took {} of a CPU, and {shared}.",
        thread(seen.thread, &seen.name),
        windows(seen.windows),
        seconds(seen.first_ns),
        seconds(seen.last_ns),
        percent(seen.local_share),
        seen.last.node.0,
        format_bandwidth(read),
        format_bandwidth(written),
        percent(seen.last_local_share),
        percent(Some(seen.last.cpu_share)),
    )
}

/// An action: what, when, why, what was expected, what came of it.
pub(super) fn action(event: &ActionEvent) -> String {
    let line = &event.line;
    let mut text = match line.as_thread_move() {
        Some(step) => migration(event, step),
        None => format!(
            "{}: {}.",
            capital(&when(event.at_ns, event.until_ns, event.windows)),
            line.sentence
        ),
    };
    match &line.record.outcome {
        outcome if outcome.took_effect() => {
            if let ActionOutcome::GoesOn { reason } = outcome {
                text.push_str(&format!(" It goes on: {reason}."));
            }
            if let Some(expected) = &line.record.expected {
                text.push_str(&format!(" Expected: {expected}."));
            }
            text.push_str(&match &event.result {
                Some(result) => came_of_it(result),
                None => not_judged(line.record.expected),
            });
        }
        ActionOutcome::Vanished => text.push_str(" It had ended."),
        ActionOutcome::Refused { reason } => text.push_str(&format!(" It could not: {reason}.")),
        _ => text.push_str(" Nothing here can do that."),
    }
    text
}

fn migration(event: &ActionEvent, step: &Move) -> String {
    let did = if event.line.is_done() {
        "went"
    } else {
        "should have gone"
    };
    format!(
        "{} {did} from node {} to node {} {}: {}.",
        thread(step.thread, &event.line.name),
        step.from.0,
        step.to.0,
        when(event.at_ns, event.until_ns, event.windows),
        step.reason
    )
}

/// A sentence begins with it.
pub(crate) fn capital(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(char::to_uppercase);
    first.into_iter().flatten().chain(letters).collect()
}

fn not_judged(expected: Option<Expectation>) -> String {
    match expected.map(|expected| expected.windows) {
        None => String::new(),
        Some(1) => " No window followed yet.".to_owned(),
        Some(windows) => format!(" That is judged {windows} windows later."),
    }
}

/// What was measured after an action that is about no single thread.
fn measured(result: &ActionResult) -> String {
    match (result.expected, result.measured) {
        (None, _) => String::new(),
        (Some(_), None) => " That could not be measured.".to_owned(),
        (Some(expected), Some(value)) => format!(" Measured: {}.", expected.measure.show(value)),
    }
}

fn came_of_it(line: &ResultLine) -> String {
    let missed = if line.result.missed {
        " That is less than half of what was expected."
    } else {
        ""
    };
    let (Some(result), Some(step)) = (&line.thread, line.result.action.as_thread_move()) else {
        return measured(&line.result) + missed;
    };
    let Some(node) = result.node else {
        return " In the next window it was gone.".to_owned();
    };
    let elsewhere = if node == step.to {
        String::new()
    } else {
        format!("on node {}, not {}, ", node.0, step.to.0)
    };
    if result.bytes_s_after <= 0.0 {
        return format!(" In the next window: {elsewhere}idle.");
    }
    let before = format_bandwidth(result.bytes_s_before);
    let factor = if result.bytes_s_before > 0.0 {
        format!(
            " ({before} before, now {:.1} times that)",
            result.bytes_s_after / result.bytes_s_before
        )
    } else {
        String::new()
    };
    let share_before = match result.local_share_before {
        Some(_) => format!(" ({} before)", percent(result.local_share_before)),
        None => String::new(),
    };
    format!(
        " In the next window: {elsewhere}{} local{share_before}, {}{factor}.{missed}",
        percent(result.local_share_after),
        format_bandwidth(result.bytes_s_after)
    )
}

/// Why a thread stayed.
pub(super) fn stayed(event: &StayEvent) -> String {
    let kept = &event.kept;
    let wanted = match kept.wanted {
        Some(wanted) if wanted != kept.node => format!(", not on node {} with its data", wanted.0),
        _ => String::new(),
    };
    format!(
        "{} stayed on node {}{wanted} {}: {}.",
        thread(kept.thread, &event.name),
        kept.node.0,
        when(event.at_ns, event.until_ns, event.windows),
        kept.because
    )
}

fn summary(summary: &Summary) -> String {
    if summary.windows == 0 {
        return "No window had anything to tell yet: no file was read or written, and no program was moved.\n".to_owned();
    }
    let have_moved = !summary.kinds.is_empty() && summary.local_share.is_some();
    let mut text = if summary.threads == 0 && !have_moved {
        let (first, last) = (seconds(summary.first_ns), seconds(summary.last_ns));
        let windows = windows(summary.windows);
        format!("In {windows} from {first} to {last} no file was read or written.\n")
    } else {
        files(summary)
    };
    text.push_str(&moves(summary));
    for contended in &summary.contended {
        text.push_str(&contention(contended));
    }
    text.push_str(&displaced(&summary.displaced));
    for line in &summary.arriving {
        text.push_str(&format!("{}.\n", capital(&line.sentence)));
    }
    for line in &summary.kept_processes {
        text.push_str(&format!("{}.\n", capital(&line.sentence)));
    }
    for line in &summary.kinds {
        text.push_str(&format!("{}.\n", capital(&line.sentence)));
    }
    if let Some(why) = &summary.unbound {
        text.push_str(&format!("Programs are not bounded: {why}.\n"));
    }
    for resting in &summary.resting {
        text.push_str(&format!("{}.\n", capital(&resting.to_string())));
    }
    text
}

/// What was read and written of files.
fn files(summary: &Summary) -> String {
    let threads = count(summary.threads as u64, "thread");
    let short_lived = "short-lived processes";
    let users = match (summary.threads, summary.kinds.is_empty()) {
        (_, true) => threads,
        (0, false) => short_lived.to_owned(),
        (_, false) => format!("{threads} and {short_lived}"),
    };
    format!(
        "In {} from {} to {} {}{users} read and wrote: {} local, {} in the last window.\n",
        windows(summary.windows),
        seconds(summary.first_ns),
        seconds(summary.last_ns),
        if summary.threads_omitted > 0 {
            "at least "
        } else {
            ""
        },
        percent(summary.local_share),
        percent(summary.last_local_share),
    )
}

fn moves(summary: &Summary) -> String {
    let mut text = count(summary.moves, "move");
    let reasons = summary.moves_by_reason.iter();
    let reasons: Vec<String> = reasons
        .map(|(reason, count)| format!("{count} {}", reason.replace('_', " ")))
        .collect();
    if !reasons.is_empty() {
        text.push_str(&format!(
            " of {} ({}), at most {} of one thread",
            count(summary.moved_threads as u64, "thread"),
            reasons.join(", "),
            summary.max_moves_per_thread
        ));
    }
    if summary.other_actions > 0 {
        text.push_str(&format!(
            "; {} more",
            count(summary.other_actions, "action")
        ));
    }
    if summary.missed > 0 {
        text.push_str(&format!(
            "; {} brought less than half of what was expected",
            summary.missed
        ));
    }
    if summary.moves_failed > 0 {
        text.push_str(&format!("; {} could not be done", summary.moves_failed));
    }
    text.push_str(".\n");
    text
}

fn contention(contended: &Contended) -> String {
    format!(
        "Node {} was contended for {}, or would have been with all threads at their data, in {}.\n",
        contended.node.0,
        contended.contention,
        windows(contended.windows)
    )
}

fn displaced(displaced: &[Displaced]) -> String {
    if displaced.is_empty() {
        return "No thread is away from its data for contention.\n".to_owned();
    }
    let names = displaced.iter().take(NAMED_THREADS).map(|each| {
        let (node, home) = (each.node.0, each.home.0);
        let contention = match each.contention {
            Contention::Pm => "its persistent memory",
            Contention::Cpu => "its CPUs",
        };
        let name = thread(each.thread, &each.name);
        format!("  {name} is on node {node} instead of {home}, for {contention}\n")
    });
    let names: String = names.collect();
    let more = match displaced.len().saturating_sub(NAMED_THREADS) {
        0 => String::new(),
        more => format!("  … and {more} more\n"),
    };
    format!("Away from their data for contention:\n{names}{more}")
}

fn ending(document: &Document) -> String {
    match document.steward {
        Fate::Stopped { restored, .. } => format!(
            "The steward stopped in order; {} CPUs back.\n",
            match restored {
                1 => "1 thread has its".to_owned(),
                threads => format!("{threads} threads have their"),
            }
        ),
        Fate::Working => "The log has no `stop`: the steward is at work.\n".to_owned(),
        Fate::Killed => "The log has no `stop` and the steward's process is gone: it was killed, or works in another \
             container. The next steward of the volume gives the threads their CPUs back.\n"
            .to_owned(),
        Fate::Unknown => "The log has no `stop`: the steward is at work, or was killed.\n".to_owned(),
    }
}

fn thread(key: ThreadKey, name: &str) -> String {
    let (thread, process) = (key.thread_id, key.process_id);
    if name.is_empty() {
        key.to_string()
    } else {
        format!("thread {thread} ({name}) of process {process}")
    }
}

fn when(at_ns: u64, until_ns: u64, times: u64) -> String {
    match times {
        1 => format!("at {}", seconds(at_ns)),
        _ => format!(
            "from {} to {} ({})",
            seconds(at_ns),
            seconds(until_ns),
            windows(times)
        ),
    }
}

fn windows(number: u64) -> String {
    count(number, "window")
}

fn count(number: u64, what: &str) -> String {
    match number {
        1 => format!("1 {what}"),
        _ => format!("{number} {what}s"),
    }
}

/// A point in time, to the millisecond.
pub(crate) fn seconds(ns: u64) -> String {
    format!("{:.3} s", ns as f64 / 1e9)
}

/// A length of time in ms, without needless digits.
pub(crate) fn milliseconds(ns: u64) -> String {
    format!("{} ms", (ns as f64 / 1e5).round() / 10.0)
}

/// A share as whole per cent.
pub(crate) fn percent(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{:.0} %", share * 100.0))
}

fn age(head: &Head) -> String {
    let now_ns = unix_ns(SystemTime::now());
    ago(Duration::from_nanos(
        now_ns.saturating_sub(head.time_unix_ns),
    ))
}

/// A length of time as people say it.
pub(crate) fn ago(length: Duration) -> String {
    match length.as_secs() {
        seconds @ 0..120 => format!("{seconds} s"),
        seconds @ 120..7200 => format!("{} min", seconds / 60),
        seconds @ 7200..172_800 => format!("{} h", seconds / 3600),
        seconds => format!("{} days", seconds / 86_400),
    }
}
