//! What a window was: counted for the summary, and as a line of the decision log.

use egeria_facts::{Facts, printable_path};
use egeria_policy::Action;
use egeria_policy::control::Turn;
use std::os::unix::ffi::OsStrExt;

use super::{Work, lock};
use crate::files::unix_ns;
use crate::idle;
use crate::kept;
use crate::log::*;
use crate::seen;
use crate::summary::{NodeRates, Summary, WindowSummary};
use egeria_actuators::MemoryMigration;

impl Work {
    pub(super) fn count(&mut self, facts: &Facts, turn: Option<&Turn>) {
        let window = &facts.window;
        let mut summary = lock(&self.summary);
        summary.windows += 1;
        let mut moves = 0;
        for record in turn.into_iter().flat_map(|turn| &turn.actions) {
            summary.count_action(record);
            let is_done = record.outcome.took_effect();
            self.done += u64::from(is_done);
            let is_process = matches!(record.action, Action::MigrateProcess { .. });
            summary.process_moves += u64::from(is_process && is_done);
            let Some(step) = record.action.as_thread_move() else {
                continue;
            };
            if !is_done {
                summary.moves_failed += 1;
                continue;
            }
            moves += 1;
            *self.moved.entry(step.thread).or_default() += 1;
            summary.count_reason(step.reason.name());
        }
        for kept in turn
            .into_iter()
            .flat_map(|turn| &turn.decision.threads.kept)
        {
            summary.count_kept(&kept.because);
            let kind = std::mem::discriminant(&kept.because);
            let (count, words) = self.kept.entry(kind).or_default();
            (*count, *words) = (*count + 1, kept.because.to_string());
        }
        for kind in turn
            .into_iter()
            .flat_map(|turn| &turn.decision.threads.notes)
        {
            let unknown = idle::unknown_of(kind).and_then(|node| self.control.machine().node(node));
            if self.is_of_processes
                && unknown.is_some_and(|node| !self.control.machine().has_persistent_memory(node))
            {
                continue;
            }
            let mut note = kind.to_string();
            if self.idle_pools.is_some() && idle::unknown_of(kind).is_some() {
                let windows = idle::IDLE_WINDOWS;
                note += &format!(
                    "; or let nobody use the volume for {windows} windows: it is measured then, once"
                );
            }
            if !summary.notes.contains(&note) && summary.add_note(note.clone()) {
                tracing::warn!("{note}");
            }
        }
        summary.budget = self.control.budget();
        summary.memory_moved_bytes = self.memory.as_ref().map_or(0, MemoryMigration::moved_bytes);
        let results = turn.into_iter().flat_map(|turn| &turn.results);
        summary.missed += results.filter(|result| result.missed).count() as u64;
        summary.moves += moves;
        summary.moved_threads = self.moved.len() as u64;
        summary.max_moves_per_thread = self.moved.values().copied().max().unwrap_or(0);
        let plan = turn.map(|turn| turn.decision.threads.clone());
        let nodes = seen::nodes(self.control.machine(), window, &plan.unwrap_or_default());
        let rates = nodes.iter().map(|node| NodeRates {
            node: node.node,
            read_bytes_s: node.read_bytes_s,
            written_bytes_s: node.written_bytes_s,
            cpu_share: node.cpu_share,
        });
        summary.add_window(WindowSummary {
            start_ns: window.start_ns,
            duration_ns: window.duration_ns,
            moves: u32::try_from(moves).unwrap_or(u32::MAX),
            local_share: facts.local_share(self.control.machine()),
            nodes: rates.collect(),
        });
    }

    pub(super) fn window_record(&self, facts: &Facts, turn: Turn) -> WindowRecord {
        let kept_processes = kept::lines(&turn.decision.placement.kept, &facts.window);
        let (before, credited) = (self.before.as_ref(), facts.credited());
        let machine = self.control.machine();
        let results = turn.results.into_iter();
        let actions = turn.actions.into_iter();
        WindowRecord {
            time_unix_ns: unix_ns(),
            resting: turn.decision.resting.clone(),
            kept_processes,
            unbound: self.unbound,
            arriving: (self.arriving().iter())
                .map(|progress| ArrivingLine::new(progress.clone()))
                .collect(),
            memories: facts.memories.clone(),
            local_share: facts.local_share(machine),
            results: results
                .map(|result| ResultLine {
                    thread: seen::of_thread(machine, (before, &credited), &result),
                    result,
                })
                .collect(),
            actions: actions
                .map(|record| {
                    let name = self.name_of(&record.action, facts);
                    ActionLine::new(record, name)
                })
                .collect(),
            ..WindowRecord::seen(machine, &facts.window, &turn.decision.threads)
        }
    }

    /// The name of the thread, or of the file outside of volumes; empty for other actions.
    fn name_of(&self, action: &Action, facts: &Facts) -> String {
        if let Action::Relocate(step) = action {
            let path = self.files.as_ref().and_then(|files| files.path(step.file));
            let shown = path.map(|path| printable_path(path.as_os_str().as_bytes()));
            return shown.unwrap_or_default();
        }
        let step = action.as_thread_move();
        let thread = step.and_then(|step| facts.window.thread(step.thread));
        thread.map_or_else(String::new, |thread| thread.name.clone())
    }

    /// Why no thread was migrated, if none was.
    pub(super) fn no_moves_because(&self, summary: &Summary) -> Option<String> {
        let (stages, threads) = (
            &self.options.settings.stages,
            &self.options.settings.nthread.stages,
        );
        let migrates = stages.clusters || threads.remote || threads.cpu || threads.pm;
        if !migrates || summary.moves > 0 || summary.process_moves > 0 {
            return None;
        }
        if summary.windows < 2 {
            let window_ms = self.options.window_ns / 1_000_000;
            let host_ms = (window_ms as f64 * self.source.dilation()).round();
            return Some(format!(
                "it ended before a second window was over ({window_ms} ms of the machine's time, {host_ms} ms here); choose a shorter --window"
            ));
        }
        let of_threads = self.kept.values().max_by_key(|(count, _)| *count);
        Some(summary.no_moves_because(
            self.kept_processes.first().or(self.placement.as_deref()),
            of_threads.map(|(_, words)| &**words),
        ))
    }
}
