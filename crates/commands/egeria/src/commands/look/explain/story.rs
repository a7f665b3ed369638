//! From the lines of a log to events, each action with its result.

use std::collections::HashMap;

use egeria_facts::{ThreadKey, printable_name, printable_path};
use egeria_machine::NodeId;
use egeria_policy::{Action, ActionOutcome, Kept, Subject};
use egeria_steward::{ActionLine, ArrivingLine, Record, ResultLine, WindowRecord};

use super::super::decision_log::{Fate, Head, printable};
use super::events::{ActionEvent, Event, StayEvent};
use super::selection::Selection;
use super::sentences;
use super::totals::{SeenThread, Totals};

/// Actions about one thing that are without a result at one time, at most.
const MAX_OPEN: usize = 64;

pub(crate) struct Story {
    pub(crate) head: Option<Head>,
    pub(crate) stop: Option<Fate>,
    pub(crate) events: Vec<Event>,
    pub(crate) totals: Totals,
    /// The last window, without what became events.
    pub(crate) last: Option<WindowRecord>,
    selection: Option<Selection>,
    /// The last event of each thread, by its place in `events`.
    latest: HashMap<ThreadKey, usize>,
    /// Events of actions that are about no single thread and have no result yet.
    open: HashMap<Subject, Vec<usize>>,
    seen: HashMap<ThreadKey, SeenThread>,
}

impl Story {
    /// A story about these threads only, or about all (then without threads that stay).
    pub(crate) fn about(selection: Option<Selection>) -> Story {
        Story {
            head: None,
            stop: None,
            events: Vec::new(),
            totals: Totals::default(),
            last: None,
            selection,
            latest: HashMap::new(),
            open: HashMap::new(),
            seen: HashMap::new(),
        }
    }

    pub(crate) fn add(&mut self, record: Record) {
        self.stop = Fate::stopped(&record);
        match record {
            Record::Window(decision) => self.add_window(*decision),
            Record::Stop { .. } => {}
            start @ Record::Start { .. } => self.head = Head::of(start),
        }
    }

    /// Those asked for, when some were.
    pub(crate) fn threads(&mut self) -> Vec<SeenThread> {
        let mut threads: Vec<SeenThread> = self.seen.drain().map(|(_, seen)| seen).collect();
        threads.sort_by_key(|seen| (seen.first_ns, seen.thread));
        for seen in &mut threads {
            seen.sentence = sentences::seen(seen);
        }
        threads
    }

    fn is_selected(&self, thread: ThreadKey) -> bool {
        self.selection
            .is_none_or(|selection| selection.holds(thread))
    }

    fn add_window(&mut self, mut decision: WindowRecord) {
        make_printable(&mut decision);
        self.totals.add(&decision);
        if self.selection.is_some() {
            self.look(&decision);
        }
        let at_ns = decision.start_ns.saturating_add(decision.duration_ns);
        for result in std::mem::take(&mut decision.results) {
            self.add_result(result);
        }
        let kept = std::mem::take(&mut decision.kept);
        if self.selection.is_some() {
            let names: HashMap<ThreadKey, &String> = (decision.threads.iter())
                .map(|thread| (thread.thread, &thread.name))
                .collect();
            for kept in kept {
                let name = names.get(&kept.thread).map(|name| (*name).clone());
                self.add_stay(at_ns, name.unwrap_or_default(), kept);
            }
        }
        for line in std::mem::take(&mut decision.actions) {
            self.add_action(at_ns, line);
        }
        self.last = Some(decision);
    }

    /// What the threads asked for did in the window.
    fn look(&mut self, decision: &WindowRecord) {
        let nodes: Vec<NodeId> = decision.nodes.iter().map(|node| node.node).collect();
        for record in &decision.threads {
            if self.is_selected(record.thread) {
                let seen = self.seen.entry(record.thread);
                seen.or_insert_with(|| SeenThread::new(decision.start_ns, record))
                    .add(decision, &nodes, record);
            }
        }
    }

    fn add_result(&mut self, result: ResultLine) {
        let index = match result.result.action.as_thread_move() {
            Some(step) => self.latest.get(&step.thread).copied(),
            None => self.close(&result.result.action),
        };
        let event = index.and_then(|index| self.events.get_mut(index));
        let Some(Event::Action(event)) = event else {
            return;
        };
        let both = (
            event.line.as_thread_move(),
            result.result.action.as_thread_move(),
        );
        let is_same = match both {
            (Some(done), Some(result)) => done.to == result.to,
            _ => event.line.record.action == result.result.action,
        };
        if event.line.is_done() && is_same {
            event.result = Some(result);
            event.report = sentences::action(event);
        }
    }

    /// The last event of this action without a result, if it is about no single thread.
    fn close(&mut self, action: &Action) -> Option<usize> {
        let open = self.open.get_mut(&action.subject())?;
        let position = open.iter().rposition(|index| {
            matches!(&self.events[*index], Event::Action(event) if event.line.record.action == *action)
        })?;
        Some(open.swap_remove(position))
    }

    fn add_action(&mut self, at_ns: u64, line: ActionLine) {
        let step = line.as_thread_move().cloned();
        let is_wanted = match &step {
            Some(step) => self.is_selected(step.thread),
            None => self.selection.is_none(),
        };
        if !is_wanted {
            return;
        }
        let index = step.as_ref().and_then(|step| self.latest.get(&step.thread));
        if let Some(Event::Action(before)) = index.and_then(|&index| self.events.get_mut(index))
            && !line.is_done()
            && before.line.record.outcome == line.record.outcome
            && before.line.as_thread_move().map(|step| step.to) == step.as_ref().map(|step| step.to)
        {
            before.until_ns = at_ns;
            before.windows += 1;
            before.line = line;
            before.report = sentences::action(before);
            return;
        }
        let (subject, is_done) = (line.record.action.subject(), line.is_done());
        let mut event = ActionEvent {
            at_ns,
            until_ns: at_ns,
            windows: 1,
            line,
            result: None,
            report: String::new(),
        };
        event.report = sentences::action(&event);
        match step {
            Some(step) => self.push(step.thread, Event::Action(Box::new(event))),
            None => {
                if is_done {
                    let open = self.open.entry(subject).or_default();
                    // The log may lack all results, so the number of open events is bounded.
                    if open.len() == MAX_OPEN {
                        open.remove(0);
                    }
                    open.push(self.events.len());
                }
                self.events.push(Event::Action(Box::new(event)));
            }
        }
    }

    fn add_stay(&mut self, at_ns: u64, name: String, kept: Kept) {
        if !self.is_selected(kept.thread) {
            return;
        }
        let index = self.latest.get(&kept.thread);
        if let Some(Event::Stay(before)) = index.and_then(|&index| self.events.get_mut(index))
            && is_same(&before.kept, &kept)
        {
            before.until_ns = at_ns;
            before.windows += 1;
            before.kept = kept;
            before.sentence = sentences::stayed(before);
            return;
        }
        let thread = kept.thread;
        let mut event = StayEvent {
            at_ns,
            until_ns: at_ns,
            windows: 1,
            name,
            kept,
            sentence: String::new(),
        };
        event.sentence = sentences::stayed(&event);
        self.push(thread, Event::Stay(event));
    }

    fn push(&mut self, thread: ThreadKey, event: Event) {
        self.latest.insert(thread, self.events.len());
        self.events.push(event);
    }
}

/// Whether a thread stays at the same node for the same reason; the numbers change from window to window.
fn is_same(before: &Kept, now: &Kept) -> bool {
    let reason = |kept: &Kept| std::mem::discriminant(&kept.because);
    (before.node, before.wanted) == (now.node, now.wanted) && reason(before) == reason(now)
}

fn make_printable(decision: &mut WindowRecord) {
    for thread in &mut decision.threads {
        thread.name = printable_name(thread.name.as_bytes());
    }
    for line in &mut decision.actions {
        line.name = match line.as_thread_move() {
            Some(_) => printable_name(line.name.as_bytes()),
            None => printable_path(line.name.as_bytes()),
        };
        // The words in a log are its writer's.
        line.write_sentence();
        if let ActionOutcome::Refused { reason } | ActionOutcome::GoesOn { reason } =
            &mut line.record.outcome
        {
            *reason = printable(reason);
        }
    }
    for line in &mut decision.kept_processes {
        line.name = printable_name(line.name.as_bytes());
        line.write_sentence();
    }
    for line in &mut decision.kinds {
        line.name = printable_name(line.name.as_bytes());
        line.command = printable_name(line.command.as_bytes());
        line.write_sentence();
    }
    for line in &mut decision.arriving {
        *line = ArrivingLine::new(line.progress.clone());
    }
}
