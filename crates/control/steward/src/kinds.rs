//! Short-lived processes, as the log shows them: a line for each parent.

use std::collections::HashMap;
use std::mem::{Discriminant, discriminant};

use egeria_facts::{Facts, KindFacts, ThreadKey};
use egeria_machine::{Machine, NodeId, format_bandwidth};
use egeria_policy::KindFate;
use egeria_policy::planner::Decision;
use serde::{Deserialize, Serialize};

/// Most lines of a window, the busiest.
const MAX_LINES: usize = 64;

/// Short-lived processes of one parent in one window: those that ended, and those that just began.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct KindLine {
    /// The first thread of the parent.
    pub parent: ThreadKey,
    /// Its name.
    pub name: String,
    /// What most of the processes are called.
    pub command: String,
    /// How many were seen.
    pub seen: u32,
    /// The node where they moved most bytes.
    pub node: Option<NodeId>,
    /// How many CPUs they kept busy, beyond what the rows of threads say.
    pub cpu_share: f64,
    pub read_bytes_s: f64,
    pub written_bytes_s: f64,
    /// Share of these bytes on the node of the process; `None` when there are none.
    pub local_share: Option<f64>,
    /// What was decided for them, or why nothing was; `None` where nothing is decided.
    pub because: Option<KindFate>,
    /// All of it in one sentence.
    pub sentence: String,
}

impl KindLine {
    /// The lines of a window, the busiest first: kinds that did something.
    pub fn of_window(
        machine: &Machine,
        facts: &Facts,
        decision: Option<&Decision>,
    ) -> Vec<KindLine> {
        let did = |kind: &&KindFacts| kind.busy_ns > 0 || kind.moved_total() > 0;
        let mut kinds: Vec<&KindFacts> = facts.kinds.iter().filter(did).collect();
        kinds.sort_by_key(|kind| {
            let work = (kind.moved_total(), kind.busy_ns);
            (std::cmp::Reverse(work), kind.parent)
        });
        kinds.truncate(MAX_LINES);
        let line = |kind: &KindFacts| KindLine::new(machine, facts, kind, decision);
        kinds.into_iter().map(line).collect()
    }

    fn new(
        machine: &Machine,
        facts: &Facts,
        kind: &KindFacts,
        decision: Option<&Decision>,
    ) -> KindLine {
        let window = &facts.window;
        let rate = |bytes: &[u64]| {
            let all = bytes
                .iter()
                .fold(0, |sum: u64, bytes| sum.saturating_add(*bytes));
            window.rate_bytes_s(all)
        };
        let name = window.thread(kind.parent).map(|thread| thread.name.clone());
        let mut line = KindLine {
            parent: kind.parent,
            name: name.unwrap_or_default(),
            command: kind.command.clone(),
            seen: kind.seen,
            node: kind.node,
            cpu_share: kind.busy_ns as f64 / window.duration_ns.max(1) as f64,
            read_bytes_s: rate(&kind.read_bytes),
            written_bytes_s: rate(&kind.written_bytes),
            local_share: kind.local_share(),
            because: decision.map(|decision| KindFate::of(machine, facts, kind, decision)),
            sentence: String::new(),
        };
        line.write_sentence();
        line
    }

    /// Makes the sentence again from the numbers and names.
    pub fn write_sentence(&mut self) {
        let named = |name: &str| match name {
            "" => String::new(),
            name => format!(" ({name})"),
        };
        let local = match self.local_share {
            Some(share) => format!(", {:.0} % local", share * 100.0),
            None => String::new(),
        };
        let because = match &self.because {
            Some(fate) => format!(": {fate}"),
            None => String::new(),
        };
        self.sentence = format!(
            "short-lived processes{} of process {}{} took {:.0} % of a CPU, read {}, wrote {}{local}{because}",
            named(&self.command),
            self.parent.process_id,
            named(&self.name),
            self.cpu_share * 100.0,
            format_bandwidth(self.read_bytes_s),
            format_bandwidth(self.written_bytes_s),
        );
    }
}

/// What came of each parent's short-lived processes in the last window.
#[derive(Debug, Default)]
pub(crate) struct KnownKinds(HashMap<ThreadKey, Option<Discriminant<KindFate>>>);

impl KnownKinds {
    /// Takes a window's; whether there are other kinds, or other reasons, than in the last one.
    pub(crate) fn is_news(&mut self, lines: &[KindLine]) -> bool {
        let lines = lines.iter();
        let now = lines.map(|line| (line.parent, line.because.as_ref().map(discriminant)));
        let now = now.collect();
        let is_news = now != self.0;
        self.0 = now;
        is_news
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use egeria_facts::{ThreadFacts, Window};

    fn facts(busy_ns: u64, read_bytes: u64) -> Facts {
        let machine = Machine::profile("dram-2s").unwrap();
        let key = ThreadKey {
            process_id: 7,
            thread_id: 7,
            start_ticks: 1,
        };
        let mut window = Window::empty(&machine, 0, 0, 1_000_000_000);
        let cpus = "0-1".parse().unwrap();
        let mut shell = ThreadFacts::idle(key, machine.nodes[0].id, 2, cpus);
        shell.name = "make".to_owned();
        window.threads.push(shell);
        let mut facts = Facts::of(window);
        facts.kinds.push(KindFacts {
            command: "cc1".to_owned(),
            windows: 3,
            busy_ns,
            read_bytes: vec![read_bytes, 0],
            local_bytes: read_bytes / 4,
            ..KindFacts::idle(key)
        });
        facts
    }

    fn lines(facts: &Facts) -> Vec<KindLine> {
        let machine = Machine::profile("dram-2s").unwrap();
        KindLine::of_window(&machine, facts, Some(&Decision::none(0)))
    }

    #[test]
    fn a_line_says_what_they_did_and_what_comes_of_it() {
        let [line] = &lines(&facts(1_500_000_000, 4_000_000))[..] else {
            panic!("one line");
        };
        assert_eq!(
            line.sentence,
            "short-lived processes (cc1) of process 7 (make) took 150 % of a CPU, read 4.00 MB/s, wrote 0 B/s, \
             25 % local: no other place is clearly better for them"
        );
        assert_eq!(lines(&facts(0, 0)), [], "they did nothing");
        let unseen = &lines(&facts(1, 0))[0];
        assert_eq!(unseen.because, Some(KindFate::Unseen));
    }

    #[test]
    fn another_kind_or_reason_is_news_and_a_number_is_none() {
        let mut known = KnownKinds::default();
        assert!(!known.is_news(&[]));
        assert!(known.is_news(&lines(&facts(1, 400))));
        assert!(!known.is_news(&lines(&facts(5, 800))));
        assert!(known.is_news(&lines(&facts(5, 0))));
        assert!(known.is_news(&[]));
    }
}
