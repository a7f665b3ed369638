//! What is shown, on every kind of output.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use egeria_machine::{NamedPath, NodeId};
use egeria_policy::nthread::Settings;
use egeria_steward::{ArrivingLine, KeptLine, KindLine, WindowRecord};
use serde::Serialize;

use super::super::decision_log::{DecisionLog, Fate, Head, unix_ns};
use super::super::explain::events::{ActionEvent, Event};
use super::super::explain::story::Story;
use super::super::programs::ProgramRow;
use super::rows::{FileRow, NodeRow, Sort, ThreadRow};
use egeria_cli::failure::Outcome;

const SHOWN_ACTIONS: usize = 20;

/// Everything known of one log, or of one window without a log.
pub(in crate::commands::look) struct View {
    log: Option<PathBuf>,
    label: Label,
    story: Story,
    /// The most that went through a node in a window, bytes/s: the end of the bars if the maximum is not known.
    peak_bytes_s: f64,
    read_weight: f64,
    files: Vec<FileRow>,
    programs: Vec<ProgramRow>,
}

/// What a frame is of.
#[derive(Clone, Serialize, Default)]
pub(in crate::commands::look) struct Label {
    pub(in crate::commands::look) volume: Option<String>,
    pub(in crate::commands::look) machine: Option<String>,
    pub(in crate::commands::look) emulated: bool,
    pub(in crate::commands::look) policy: Option<String>,
    pub(in crate::commands::look) window_ns: Option<u64>,
    pub(in crate::commands::look) process_id: Option<u32>,
    /// How bytes were found, where they were not counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::commands::look) estimate: Option<String>,
    /// One line for a machine of one node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(in crate::commands::look) note: Option<&'static str>,
}

/// One frame: what `--json` prints.
#[derive(Serialize)]
pub(in crate::commands::look) struct Frame {
    pub(in crate::commands::look) log: Option<NamedPath>,
    #[serde(flatten)]
    pub(in crate::commands::look) label: Label,
    /// `None`: no steward.
    pub(in crate::commands::look) steward: Option<Fate>,
    /// `None`: nothing was read or written yet.
    pub(in crate::commands::look) window: Option<WindowLabel>,
    pub(in crate::commands::look) moves: u64,
    pub(in crate::commands::look) nodes: Vec<NodeRow>,
    pub(in crate::commands::look) threads: Vec<ThreadRow>,
    /// Threads that read or wrote and are too many to be named.
    pub(in crate::commands::look) threads_omitted: u64,
    /// Busiest first, where they are counted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(in crate::commands::look) files: Vec<FileRow>,
    /// Heaviest first, where programs are looked at.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(in crate::commands::look) programs: Vec<ProgramRow>,
    /// Short-lived processes, a row for each parent.
    pub(in crate::commands::look) kinds: Vec<KindLine>,
    pub(in crate::commands::look) last_actions: Vec<ActionEvent>,
    /// Processes that use memory heavily and that the steward leaves as they are.
    pub(in crate::commands::look) kept_processes: Vec<KeptLine>,
    /// Memory that went to its threads in the last window.
    pub(in crate::commands::look) arriving: Vec<ArrivingLine>,
}

/// Which window.
#[derive(Serialize)]
pub(in crate::commands::look) struct WindowLabel {
    number: u64,
    pub(in crate::commands::look) start_ns: u64,
    pub(in crate::commands::look) duration_ns: u64,
    time_unix_ns: u64,
    pub(in crate::commands::look) local_share: Option<f64>,
}

impl WindowLabel {
    /// ns of machine time at its end.
    pub(in crate::commands::look) fn end_ns(&self) -> u64 {
        self.start_ns.saturating_add(self.duration_ns)
    }

    /// How long ago it ended, on the wall clock.
    pub(in crate::commands::look) fn age(&self) -> Duration {
        let now_ns = unix_ns(SystemTime::now());
        Duration::from_nanos(now_ns.saturating_sub(self.time_unix_ns))
    }
}

impl View {
    pub(in crate::commands::look) fn of_log(path: &Path) -> View {
        View {
            log: Some(path.to_owned()),
            ..View::of_window(Label::default())
        }
    }

    /// Of a window that no steward looks at; [`View::add`] it.
    pub(in crate::commands::look) fn of_window(label: Label) -> View {
        View {
            log: None,
            label,
            story: Story::about(None),
            peak_bytes_s: 0.0,
            read_weight: Settings::default().read_weight,
            files: Vec::new(),
            programs: Vec::new(),
        }
    }

    /// Programs of the window that follows.
    pub(super) fn set_programs(&mut self, programs: Vec<ProgramRow>) {
        self.programs = programs;
    }

    /// Files of the window that follows, and how bytes were found.
    pub(super) fn set_files(&mut self, files: Vec<FileRow>, estimate: &str) {
        self.files = files;
        self.label.estimate = Some(estimate.to_owned());
    }

    /// Reads what is new in the log; answers how many lines that were.
    pub(in crate::commands::look) fn read(&mut self, log: &mut DecisionLog) -> Outcome<usize> {
        self.read_with(log, &mut |_| ())
    }

    /// Reads what is new in the log and shows each window. Returns the number of lines.
    pub(in crate::commands::look) fn read_with(
        &mut self,
        log: &mut DecisionLog,
        show: &mut dyn FnMut(&WindowRecord),
    ) -> Outcome<usize> {
        let mut lines = 0;
        while let Some(record) = log.next()? {
            lines += 1;
            if let egeria_steward::Record::Window(window) = &record {
                show(window);
            }
            self.story.add(record);
            self.note_peak();
        }
        if let Some(head) = &self.story.head {
            self.read_weight = head.settings.nthread.read_weight;
            self.label = Label::of(head);
        }
        Ok(lines)
    }

    pub(in crate::commands::look) fn add(&mut self, decision: WindowRecord) {
        let record = egeria_steward::Record::Window(Box::new(decision));
        self.story.add(record);
        self.note_peak();
    }

    fn note_peak(&mut self) {
        let nodes = self.story.last.iter().flat_map(|last| &last.nodes);
        let used = nodes.map(|node| node.read_bytes_s * self.read_weight + node.written_bytes_s);
        self.peak_bytes_s = used.fold(self.peak_bytes_s, f64::max);
    }

    /// All of it, threads in this order.
    pub(in crate::commands::look) fn frame(&self, sort: Sort) -> Frame {
        let last = self.story.last.as_ref();
        Frame {
            log: self.log.clone().map(Into::into),
            label: self.label.clone(),
            steward: (self.log.as_ref())
                .map(|_| Fate::of(self.story.head.as_ref(), self.story.stop)),
            window: last.map(|last| WindowLabel {
                number: last.number,
                start_ns: last.start_ns,
                duration_ns: last.duration_ns,
                time_unix_ns: last.time_unix_ns,
                local_share: last.local_share,
            }),
            moves: self.story.totals.moves(),
            nodes: last.map_or_else(Vec::new, |last| self.nodes(last)),
            threads: last.map_or_else(Vec::new, |last| self.threads(last, sort)),
            threads_omitted: last.map_or(0, |last| last.threads_omitted),
            files: self.files.clone(),
            programs: self.programs.clone(),
            kinds: last.map_or_else(Vec::new, |last| last.kinds.clone()),
            last_actions: self.last_actions(),
            kept_processes: last.map_or_else(Vec::new, |last| last.kept_processes.clone()),
            arriving: last.map_or_else(Vec::new, |last| last.arriving.clone()),
        }
    }

    /// The window that was added last.
    pub(in crate::commands::look) fn last_window(&self) -> Option<&WindowRecord> {
        self.story.last.as_ref()
    }

    fn nodes(&self, last: &WindowRecord) -> Vec<NodeRow> {
        let rows = last.nodes.iter();
        rows.map(|node| NodeRow::new(node, self.read_weight, self.peak_bytes_s))
            .collect()
    }

    fn threads(&self, last: &WindowRecord, sort: Sort) -> Vec<ThreadRow> {
        let nodes: Vec<NodeId> = last.nodes.iter().map(|node| node.node).collect();
        let rows = last.threads.iter();
        let mut rows: Vec<ThreadRow> = rows
            .map(|record| {
                let moves = self.story.totals.moves_of(record.thread);
                ThreadRow::new(&nodes, record, moves)
            })
            .collect();
        sort.apply(&mut rows);
        rows
    }

    fn last_actions(&self) -> Vec<ActionEvent> {
        let actions = self
            .story
            .events
            .iter()
            .rev()
            .filter_map(|event| match event {
                Event::Action(event) => Some((**event).clone()),
                Event::Stay(_) => None,
            });
        actions.take(SHOWN_ACTIONS).collect()
    }
}

impl Label {
    fn of(head: &Head) -> Label {
        Label {
            volume: head.volume.clone(),
            machine: Some(head.machine.clone()),
            emulated: head.emulated,
            policy: Some(head.policy.clone()),
            window_ns: Some(head.window_ns),
            process_id: Some(head.process_id),
            estimate: None,
            note: None,
        }
    }
}
