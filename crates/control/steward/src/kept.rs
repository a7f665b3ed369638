//! Processes that a policy leaves as they are, as the log shows them.

use std::collections::HashMap;
use std::mem::{Discriminant, discriminant};

use egeria_facts::{ProcessKey, Window};
use egeria_policy::{KeptProcess, ProcessKept};

use crate::log::KeptLine;

/// Processes left as they are in the last window, and why.
#[derive(Debug, Default)]
pub(crate) struct KeptProcesses {
    reasons: HashMap<ProcessKey, Discriminant<ProcessKept>>,
    /// The one that uses memory most, in words.
    first: Option<String>,
}

impl KeptProcesses {
    /// Takes a window's; whether they are others, or are left for other reasons, than in the last one. The numbers
    /// change from window to window.
    pub(crate) fn is_news(&mut self, kept: &[KeptProcess]) -> bool {
        let reasons = kept.iter();
        let reasons: HashMap<_, _> = reasons
            .map(|kept| (kept.process, discriminant(&kept.because)))
            .collect();
        let most = kept
            .iter()
            .max_by(|one, other| one.accesses_s.total_cmp(&other.accesses_s));
        self.first = most.map(ToString::to_string);
        let is_news = reasons != self.reasons;
        self.reasons = reasons;
        is_news
    }

    /// Why the process that uses memory most is left, in the last window.
    pub(crate) fn first(&self) -> Option<&str> {
        self.first.as_deref()
    }
}

/// The lines of a window, with the names of the processes.
pub(crate) fn lines(kept: &[KeptProcess], window: &Window) -> Vec<KeptLine> {
    let line = |kept: &KeptProcess| {
        let id = kept.process.process_id;
        let mut threads = window.threads.iter();
        let first =
            threads.find(|thread| (thread.key.process_id, thread.key.thread_id) == (id, id));
        let name = first.map_or_else(String::new, |first| first.name.clone());
        KeptLine::new(kept.clone(), name)
    };
    kept.iter().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use egeria_facts::{CpuSet, ThreadFacts, ThreadKey};
    use egeria_machine::{Machine, NodeId};

    fn kept(process_id: u32, remote_share: f64, because: ProcessKept) -> KeptProcess {
        KeptProcess {
            process: ProcessKey {
                process_id,
                start_ticks: 1,
            },
            remote_share,
            accesses_s: f64::from(process_id),
            because,
        }
    }

    #[test]
    fn a_new_process_or_reason_is_news_and_a_number_is_none() {
        let mut known = KeptProcesses::default();
        assert!(!known.is_news(&[]));
        let local = kept(7, 0.01, ProcessKept::Local);
        assert!(known.is_news(std::slice::from_ref(&local)));
        assert!(!known.is_news(&[kept(7, 0.02, ProcessKept::Local)]));
        assert!(known.is_news(&[kept(7, 0.9, ProcessKept::Bound)]));
        assert!(known.is_news(&[
            kept(7, 0.9, ProcessKept::Bound),
            kept(9, 0.0, ProcessKept::Resting)
        ]));
        let first = known.first().unwrap();
        assert!(first.starts_with("process 9 stays"), "{first}");
        assert!(known.is_news(&[]) && known.first().is_none());
    }

    #[test]
    fn lines_have_the_name_of_the_first_thread() {
        let machine = Machine::profile("optane-2s").unwrap();
        let mut window = Window::empty(&machine, 0, 0, 1);
        for (thread_id, name) in [(8, "worker"), (7, "postgres")] {
            let key = ThreadKey {
                process_id: 7,
                thread_id,
                start_ticks: 1,
            };
            let mut thread = ThreadFacts::idle(key, NodeId(0), 2, CpuSet::empty());
            thread.name = name.to_owned();
            window.threads.push(thread);
        }
        let found = lines(
            &[
                kept(7, 0.5, ProcessKept::Shared),
                kept(9, 0.0, ProcessKept::Local),
            ],
            &window,
        );
        let wanted = "process 7 (postgres) stays as it is, 50 % of its accesses cross nodes: threads of several \
            nodes share its memory, and it is spread over them";
        assert_eq!(found[0].sentence, wanted);
        assert!(found[1].sentence.starts_with("process 9 stays as it is"));
    }
}
