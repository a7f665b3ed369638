//! What is wrong with programs, as a document and as text.

use egeria_cli::output::{self, printable};
use egeria_machine::{Machine, format_bytes};
use egeria_policy::diagnosis::Verdict;
use egeria_steward::{ActionLine, KeptLine};
use serde::Serialize;

use super::super::explain::sentences::{capital, percent};
use super::super::programs::{Held, PROGRAM_HEADERS, ProgramRow};
use super::elsewhere::FilesElsewhere;
use super::repair::Repair;

/// Actions shown to people of one program.
const SHOWN_ACTIONS: usize = 3;

/// What `egeria diagnose --json` prints.
#[derive(Serialize)]
pub(in crate::commands) struct Document {
    pub(super) machine: String,
    /// How many nodes the machine has.
    pub(super) nodes: usize,
    /// How long programs were observed, ns.
    pub(super) observed_ns: u64,
    /// How many windows a recording has; `None` where this machine was looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) windows: Option<u64>,
    /// Programs with a fault.
    pub(in super::super) faults: usize,
    /// The heaviest first.
    pub(in super::super) programs: Vec<Program>,
    /// How facts were seen.
    pub(super) sources: Vec<String>,
    /// What could not be seen, and why.
    pub(super) unseen: Vec<String>,
    /// One line that says all, where there is nothing to find.
    pub(in super::super) nothing_because: Option<String>,
}

/// One program, and what is wrong with its placement.
#[derive(Serialize)]
pub(in crate::commands) struct Program {
    #[serde(flatten)]
    pub(in super::super) row: ProgramRow,
    pub(super) unit: Option<String>,
    pub(super) verdict: Verdict,
    pub(super) is_fault: bool,
    /// The verdict in one sentence.
    pub(super) sentence: String,
    /// In how many windows of a recording that was so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) windows: Option<InWindows>,
    /// By what part it would be faster without the fault, as the planner estimates.
    pub(super) gain: Option<f64>,
    /// Part of its accesses to memory that cross nodes.
    pub(super) remote_share: Option<f64>,
    /// What a steward would do.
    pub(super) would_do: Vec<ActionLine>,
    /// The same if the program were not bound, or the node had room.
    pub(super) if_it_could: Vec<ActionLine>,
    /// Why a steward leaves it as it is.
    pub(super) kept: Option<KeptLine>,
    /// Files of other nodes, if they are no fault.
    pub(super) files_elsewhere: Option<FilesElsewhere>,
    pub(super) repairs: Vec<Repair>,
}

/// How often a verdict was given.
#[derive(Clone, Copy, Serialize)]
pub(super) struct InWindows {
    /// Windows with the verdict.
    pub(super) with_verdict: u64,
    /// Windows in which the program used memory or files enough for its place to matter.
    pub(super) busy: u64,
}

impl Document {
    /// Of nothing seen yet.
    pub(super) fn of(machine: &Machine) -> Document {
        Document {
            machine: machine.name.clone(),
            nodes: machine.nodes.len(),
            observed_ns: 0,
            windows: None,
            faults: 0,
            programs: Vec::new(),
            sources: Vec::new(),
            unseen: Vec::new(),
            nothing_because: None,
        }
    }

    /// Text for people.
    pub(in super::super) fn human(&self) -> String {
        if let Some(because) = &self.nothing_because {
            return because.clone();
        }
        let mut text = self.windows.map_or(String::new(), |windows| {
            let seconds = self.observed_ns as f64 / 1e9;
            format!("{windows} windows, {seconds:.0} s\n\n")
        });
        if self.programs.is_empty() {
            text += "No program did anything while it was observed.\n";
        } else {
            let rows = self.programs.iter().map(|program| program.row.cells());
            text += &output::table(&PROGRAM_HEADERS, rows.collect());
            text += "\n";
        }
        // Of many programs, those in order are only counted.
        let is_one = self.programs.len() == 1;
        let shown = self.programs.iter();
        for program in shown.filter(|program| is_one || program.is_shown()) {
            text += &program.human();
        }
        text += &match (self.programs.len(), self.faults) {
            (0, _) => String::new(),
            (_, 0) => "\nNothing is wrong with the placement of these programs.\n".to_owned(),
            (_, 1) => "\nOne program is misplaced.\n".to_owned(),
            (_, faults) => format!("\n{faults} programs are misplaced.\n"),
        };
        for line in &self.unseen {
            text += &format!("note: {}\n", printable(line));
        }
        text
    }
}

impl Document {
    /// What is to be gained, a line for each program that is misplaced; for people.
    pub(in crate::commands) fn gains(&self) -> String {
        if self.nothing_because.is_some() {
            return String::new();
        }
        let mut text =
            "Expected gain, as `egeria diagnose --trace` estimates it (policy all):\n".to_owned();
        let misplaced = self.programs.iter().filter(|program| program.is_fault);
        for program in misplaced {
            let (process_id, name) = (program.row.process_id, printable(&program.row.name));
            let (gain, sentence) = (program.cost_of_fault(), &program.sentence);
            text += &format!("  {process_id} ({name}): {gain}; {sentence}\n");
        }
        if self.faults == 0 {
            text += "  none: in most windows nothing is misplaced\n";
        }
        for line in &self.unseen {
            text += &format!("  note: {}\n", printable(line));
        }
        text
    }
}

impl Program {
    /// What the fault costs.
    fn cost_of_fault(&self) -> String {
        match self.gain {
            Some(gain) => format!(
                "probably {:.0} % faster without that (estimated)",
                gain * 100.0
            ),
            None => "what that costs is not estimated".to_owned(),
        }
    }

    /// Whether more is to be said of it than that it is in order.
    fn is_shown(&self) -> bool {
        self.is_fault
            || self.files_elsewhere.is_some()
            || matches!(
                self.verdict,
                Verdict::AccessorsUnknown | Verdict::NotWorthIt
            )
    }

    fn human(&self) -> String {
        let name = printable(&self.row.name);
        let unit = self.unit.as_ref();
        let unit = unit.map_or(String::new(), |unit| format!(", {}", printable(unit)));
        let mut text = format!(
            "\n{} ({name}{unit}): {}\n",
            self.row.process_id,
            if self.is_fault { "WRONG" } else { "in order" },
        );
        let windows = self.windows.map_or(String::new(), |windows| {
            let (with, busy) = (windows.with_verdict, windows.busy);
            format!(", in {with} of {busy} windows in which it was busy")
        });
        text += &format!("  {}{windows}\n", capital(&self.sentence));
        text += &format!("  {}\n", self.cost());
        for line in self.would_do.iter().take(SHOWN_ACTIONS) {
            text += &format!("  a steward would do: {}\n", in_words(line));
        }
        for line in self.if_it_could.iter().take(SHOWN_ACTIONS) {
            text += &format!("  it would do, if it could: {}\n", in_words(line));
        }
        if let Some(kept) = &self.kept {
            text += &format!("  {}\n", kept.sentence);
        }
        if let Some(files) = &self.files_elsewhere {
            text += &format!("  {}\n", files.sentence());
            for line in &files.lines {
                text += &format!("  to make that local: {line}\n");
            }
        }
        for repair in &self.repairs {
            text += &format!("  {}: {}\n", repair.when.words(), repair.line);
        }
        text
    }

    /// How much of it crosses nodes, and what that costs.
    fn cost(&self) -> String {
        let mut parts = Vec::new();
        if let Some(remote) = self.remote_share {
            parts.push(format!(
                "{} of its accesses to memory cross nodes",
                percent(Some(remote))
            ));
        }
        if let Some(local) = self.row.files_local_share {
            parts.push(format!(
                "{} of what it reads and writes of files does",
                percent(Some(1.0 - local))
            ));
        }
        parts.extend(self.row.heap.as_ref().map(|heap| held("heap", heap)));
        if self.is_fault {
            parts.push(self.cost_of_fault());
        }
        if parts.is_empty() {
            "nothing was seen of its memory".to_owned()
        } else {
            parts.join("; ")
        }
    }
}

/// An action, and what is expected of it.
fn in_words(line: &ActionLine) -> String {
    let expected = line.record.expected;
    let expected = expected.map_or(String::new(), |expected| format!("; expected: {expected}"));
    format!("{}{expected}", line.sentence)
}

/// As `heap 1.00 GiB on nodes 0: 90 %, 1: 10 %`.
fn held(what: &str, held: &Held) -> String {
    let nodes = held.nodes.iter().map(|on| {
        let share = on.bytes as f64 / held.bytes.max(1) as f64;
        format!("{}: {}", on.node.0, percent(Some(share)))
    });
    let nodes = nodes.collect::<Vec<String>>().join(", ");
    format!("{what} {} on nodes {nodes}", format_bytes(held.bytes))
}
