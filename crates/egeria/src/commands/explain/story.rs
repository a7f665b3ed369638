//! From the lines of a log to events, each thread's moves beside what came of them.

use std::collections::HashMap;

use egeria_machine::NodeId;
use egeria_policy::Kept;
use egeria_steward::{Decision, MoveRecord, Outcome, Record, ResultRecord};
use egeria_window::{ThreadKey, printable_name};
use serde::Serialize;

use super::super::decision_log::{Fate, Head, printable};
use super::totals::{SeenThread, Totals};
use super::{Selection, sentences};

/// Something a log tells. What happens again and again to a thread is one event.
#[derive(Serialize, Debug)]
#[serde(tag = "event", rename_all = "snake_case")]
pub(crate) enum Event {
    /// A thread went, or should have gone, to another node.
    Move(MoveEvent),
    /// A thread stayed although something spoke for another node.
    Stay(StayEvent),
}

#[derive(Serialize, Clone, Debug)]
pub(crate) struct MoveEvent {
    /// ns of machine time since the steward began.
    pub(crate) at_ns: u64,
    /// The same when it happened last.
    pub(crate) until_ns: u64,
    /// In how many windows: more than one only for moves that failed.
    pub(crate) windows: u64,
    #[serde(flatten)]
    pub(crate) moved: MoveRecord,
    /// What happened in the next window.
    pub(crate) result: Option<ResultRecord>,
    pub(crate) sentence: String,
}

#[derive(Serialize, Debug)]
pub(crate) struct StayEvent {
    /// ns of machine time since the steward began.
    pub(crate) at_ns: u64,
    /// The same when it happened last.
    pub(crate) until_ns: u64,
    /// In how many windows.
    pub(crate) windows: u64,
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) kept: Kept,
    pub(crate) sentence: String,
}

/// All of a log.
pub(crate) struct Story {
    pub(crate) head: Option<Head>,
    pub(crate) stop: Option<Fate>,
    pub(crate) events: Vec<Event>,
    pub(crate) totals: Totals,
    /// The last window, without what became events.
    pub(crate) last: Option<Decision>,
    selection: Option<Selection>,
    /// The last event of each thread, by its place in `events`.
    latest: HashMap<ThreadKey, usize>,
    seen: HashMap<ThreadKey, SeenThread>,
}

impl Story {
    /// Of these threads only, or of all (then without those who stay).
    pub(crate) fn about(selection: Option<Selection>) -> Story {
        Story {
            head: None,
            stop: None,
            events: Vec::new(),
            totals: Totals::default(),
            last: None,
            selection,
            latest: HashMap::new(),
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

    fn is_told(&self, thread: ThreadKey) -> bool {
        self.selection
            .is_none_or(|selection| selection.holds(thread))
    }

    fn add_window(&mut self, mut decision: Decision) {
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
        for moved in std::mem::take(&mut decision.moves) {
            self.add_move(at_ns, moved);
        }
        self.last = Some(decision);
    }

    /// What the threads asked for did in the window.
    fn look(&mut self, decision: &Decision) {
        let nodes: Vec<NodeId> = decision.nodes.iter().map(|node| node.node).collect();
        for record in &decision.threads {
            if self.is_told(record.thread) {
                let seen = self.seen.entry(record.thread);
                seen.or_insert_with(|| SeenThread::new(decision.start_ns, record))
                    .add(decision, &nodes, record);
            }
        }
    }

    fn add_result(&mut self, result: ResultRecord) {
        let index = self.latest.get(&result.thread);
        let event = index.and_then(|&index| self.events.get_mut(index));
        let Some(Event::Move(event)) = event else {
            return;
        };
        if event.moved.outcome == Outcome::Done && event.moved.to == result.to {
            event.result = Some(result);
            event.sentence = sentences::moved(event);
        }
    }

    fn add_move(&mut self, at_ns: u64, moved: MoveRecord) {
        if !self.is_told(moved.thread) {
            return;
        }
        let index = self.latest.get(&moved.thread);
        if let Some(Event::Move(before)) = index.and_then(|&index| self.events.get_mut(index))
            && moved.outcome != Outcome::Done
            && (&before.moved.outcome, before.moved.to) == (&moved.outcome, moved.to)
        {
            before.until_ns = at_ns;
            before.windows += 1;
            before.moved = moved;
            before.sentence = sentences::moved(before);
            return;
        }
        let thread = moved.thread;
        let mut event = MoveEvent {
            at_ns,
            until_ns: at_ns,
            windows: 1,
            moved,
            result: None,
            sentence: String::new(),
        };
        event.sentence = sentences::moved(&event);
        self.push(thread, Event::Move(event));
    }

    fn add_stay(&mut self, at_ns: u64, name: String, kept: Kept) {
        if !self.is_told(kept.thread) {
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

/// The same for the same reason; its numbers change from window to window.
fn is_same(before: &Kept, now: &Kept) -> bool {
    let reason = |kept: &Kept| std::mem::discriminant(&kept.because);
    (before.node, before.wanted) == (now.node, now.wanted) && reason(before) == reason(now)
}

fn make_printable(decision: &mut Decision) {
    for thread in &mut decision.threads {
        thread.name = printable_name(thread.name.as_bytes());
    }
    for moved in &mut decision.moves {
        moved.name = printable_name(moved.name.as_bytes());
        // Told anew from the numbers: what a log says in words is its writer's.
        moved.because = moved.reason.to_string();
        if let Outcome::Refused { why } = &mut moved.outcome {
            *why = printable(why);
        }
    }
}
