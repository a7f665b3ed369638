//! A replay for people.

use std::collections::HashMap;
use std::mem::Discriminant;

use egeria_facts::{ThreadKey, Window};
use egeria_machine::format_bandwidth;
use egeria_policy::control::Turn;
use egeria_policy::{Kept, KeptBecause, NodeLoad, Plan};

use super::tally::PolicyRow;
use super::view::{CAVEAT, View};
use egeria_cli::failure::Outcome;
use egeria_cli::output;
use egeria_policy::control::Replay;

const NS_PER_S: f64 = 1e9;

/// Kept threads shown per window; moves are all shown.
const SHOWN_KEPT: usize = 8;

/// Restless threads shown.
const SHOWN_UNSETTLED: usize = 20;

/// Prints header, the windows where something happens, and the summary.
pub(super) fn print(view: &View<'_>) -> Outcome {
    output::print_text(&head(view))?;
    let mut reader = view.again()?;
    let mut replay = Replay::new(&view.machine, view.policy.make(), view.settings.clone());
    let mut story = Story::default();
    for window in view.windows(&mut reader) {
        let (facts, turn) = replay.step(&window?);
        let text = story.tell(view, &facts.window, &turn);
        output::print_text(&text)?;
    }
    output::print_text(&story.quiet_windows())?;
    output::print_text(&summary(view))
}

fn head(view: &View<'_>) -> String {
    let mut text = view.label.text(&view.machine);
    text.push_str(&format!(
        "replay   {}{}\n\nWhat if: {CAVEAT}.\n",
        view.policy,
        set_values(view)
    ));
    if view.label.policy != "off" {
        text.push_str(
            "Threads were moved while this was recorded; those the replay leaves alone are where \
             they were then.\n",
        );
    }
    for note in &view.tally().notes {
        text.push_str(&format!("Note: {note}.\n"));
    }
    text.push('\n');
    text
}

fn set_values(view: &View<'_>) -> String {
    let values = view.changed.iter();
    values.map(|pair| format!(", {pair}")).collect()
}

/// What was printed so far.
#[derive(Default)]
struct Story {
    /// Why threads are kept, as printed since they moved last: only a new reason is printed.
    kept: HashMap<ThreadKey, Discriminant<KeptBecause>>,
    start_ns: Option<u64>,
    /// Windows without anything to print: the first and the last.
    quiet: Option<(u64, u64)>,
}

impl Story {
    fn tell(&mut self, view: &View<'_>, window: &Window, turn: &Turn) -> String {
        let plan = &turn.decision.threads;
        let start_ns = *self.start_ns.get_or_insert(window.start_ns);
        let news = self.news(plan);
        let missed = turn.results.iter().filter(|result| result.missed);
        let missed: Vec<_> = missed.collect();
        if turn.actions.is_empty() && news.is_empty() && missed.is_empty() {
            let first = self.quiet.map_or(window.number, |(first, _)| first);
            self.quiet = Some((first, window.number));
            return String::new();
        }
        let names = names(window);
        let mut text = self.quiet_windows();
        let from_s = window.start_ns.saturating_sub(start_ns) as f64 / NS_PER_S;
        text.push_str(&format!(
            "window {} at {from_s:.3} s: {}, local share {}\n",
            window.number,
            counted(turn.actions.len(), "action"),
            percent(window.local_share(&view.machine))
        ));
        for result in missed {
            let expected = result.expected.map(|expected| expected.to_string());
            text.push_str(&format!(
                "  brought less than half of what was expected ({}): {}\n",
                expected.unwrap_or_default(),
                result.action
            ));
        }
        for record in &turn.actions {
            let line = record.action.to_string();
            text.push_str(&match record.action.as_thread_move() {
                Some(step) => sentence(&names, step.thread, &line),
                None => format!("  {line}\n"),
            });
        }
        for each in news.iter().take(SHOWN_KEPT) {
            text.push_str(&sentence(&names, each.thread, &each.to_string()));
        }
        if news.len() > SHOWN_KEPT {
            let more = news.len() - SHOWN_KEPT;
            text.push_str(&format!("  … {more} more stay: --json shows all\n"));
        }
        text.push_str("  expected:\n");
        for load in &plan.expected {
            text.push_str(&expected(load));
        }
        text
    }

    /// The threads that are kept for another reason than the one printed last.
    fn news<'a>(&mut self, plan: &'a Plan) -> Vec<&'a Kept> {
        for each in &plan.moves {
            self.kept.remove(&each.thread);
        }
        let reason = |kept: &Kept| std::mem::discriminant(&kept.because);
        let mut is_new =
            |kept: &&Kept| self.kept.insert(kept.thread, reason(kept)) != Some(reason(kept));
        plan.kept.iter().filter(|kept| is_new(kept)).collect()
    }

    /// A line for the windows without anything to tell since the last that had.
    fn quiet_windows(&mut self) -> String {
        match self.quiet.take() {
            None => String::new(),
            Some((first, last)) if first == last => format!("window {first}: nothing to do\n"),
            Some((first, last)) => format!("windows {first} to {last}: nothing to do\n"),
        }
    }
}

type Names<'a> = HashMap<ThreadKey, &'a str>;

fn names(window: &Window) -> Names<'_> {
    let threads = window.threads.iter();
    threads
        .map(|facts| (facts.key, facts.name.as_str()))
        .collect()
}

/// What a plan says about a thread, with the thread's name behind its ids.
fn sentence(names: &Names<'_>, thread: ThreadKey, text: &str) -> String {
    let name = names.get(&thread).copied().unwrap_or_default();
    let ids = thread.to_string();
    match text.strip_prefix(&ids) {
        Some(rest) if !name.is_empty() => format!("  {ids} ({name}){rest}\n"),
        _ => format!("  {text}\n"),
    }
}

fn expected(load: &NodeLoad) -> String {
    let of_maximum = load.pm_maximum_bytes_s.map(|maximum| {
        let share = percent(Some(load.pm_bytes_s / maximum));
        format!(" ({share} of its bandwidth)")
    });
    format!(
        "    node {}: {}, {} read, {} written{}, CPUs {} busy\n",
        load.node.0,
        counted(load.threads as usize, "thread"),
        format_bandwidth(load.read_bytes_s),
        format_bandwidth(load.written_bytes_s),
        of_maximum.unwrap_or_default(),
        percent(Some(load.cpu_share))
    )
}

fn summary(view: &View<'_>) -> String {
    let headers = [
        "policy",
        ">moves",
        ">threads moved",
        ">most moves of one",
        ">other actions",
        ">missed",
        ">never settled",
        ">local",
    ];
    let rows = view.tallies.iter().map(|tally| row(view, &tally.row()));
    let mut text = format!("\n{}\n", output::table(&headers, rows.collect()));
    let unsettled = view.tally().unsettled();
    for each in unsettled.iter().take(SHOWN_UNSETTLED) {
        let moves = counted(each.moves as usize, "move");
        text.push_str(&format!(
            "{} ({}) never settled: {moves}\n",
            each.key, each.name
        ));
    }
    if unsettled.len() > SHOWN_UNSETTLED {
        let more = unsettled.len() - SHOWN_UNSETTLED;
        text.push_str(&format!("… {more} more never settled: --json shows all\n"));
    }
    text + &view.placement.gains()
}

fn row(view: &View<'_>, row: &PolicyRow) -> Vec<String> {
    let is_chosen = row.policy == view.policy;
    let mark = if is_chosen { " *" } else { "" };
    vec![
        format!("{}{mark}", row.policy),
        row.moves.to_string(),
        row.moved_threads.to_string(),
        row.max_moves.to_string(),
        row.other_actions.to_string(),
        row.missed.to_string(),
        row.unsettled_threads.to_string(),
        percent(row.local_share),
    ]
}

fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

fn percent(share: Option<f64>) -> String {
    share.map_or("-".to_owned(), |share| format!("{:.0} %", share * 100.0))
}
