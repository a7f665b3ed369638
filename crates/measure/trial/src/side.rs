//! What sides are, what accompanies them, and what is kept of each run.

use egeria_files::Result;
use serde::Serialize;

use crate::activity::Activity;

/// Begins what accompanies one run.
pub type Begin<'a> = Box<dyn Fn() -> Result<Box<dyn Treatment>> + 'a>;

/// What accompanies a run. Dropping it undoes what it did, too.
pub trait Treatment {
    /// The clock of the emulated machine that the command uses, s; `None` without one.
    fn machine_s(&self) -> Option<f64> {
        None
    }

    /// Ends it, undoes what it did, and says what that was.
    fn end(self: Box<Self>) -> Done;
}

/// What was done during runs of a side.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Done {
    /// Threads migrated, each time counted.
    pub threads_moved: u64,
    /// Processes migrated as a whole, each time counted.
    pub processes_moved: u64,
    /// Memory of processes that was migrated, bytes.
    pub memory_moved_bytes: u64,
    /// Bytes that were read and written on a volume, on the node of the thread and on others.
    pub local_bytes: u64,
    pub remote_bytes: u64,
    /// Other actions, with how often.
    pub others: Vec<(String, u64)>,
    /// Why no thread was migrated, of the last run.
    pub nothing_because: Option<String>,
    /// What of it is not undone at the end of a run, if anything: runs without it profit from that as well.
    pub stays: Option<String>,
    /// What cannot be seen or done here, each once.
    pub limits: Vec<String>,
}

impl Done {
    /// Adds what else was done.
    pub fn add(&mut self, more: Done) {
        self.threads_moved += more.threads_moved;
        self.processes_moved += more.processes_moved;
        self.memory_moved_bytes += more.memory_moved_bytes;
        self.local_bytes += more.local_bytes;
        self.remote_bytes += more.remote_bytes;
        for (name, count) in more.others {
            match self.others.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => *sum += count,
                None => self.others.push((name, count)),
            }
        }
        self.nothing_because = more.nothing_because.or(self.nothing_because.take());
        self.stays = self.stays.take().or(more.stays);
        let new = more.limits.into_iter();
        let new: Vec<String> = new.filter(|line| !self.limits.contains(line)).collect();
        self.limits.extend(new);
    }

    /// What was done, in words.
    pub fn words(&self) -> String {
        let counts = [
            (self.threads_moved, "threads moved"),
            (self.processes_moved, "processes moved"),
        ];
        let counts = counts.into_iter().filter(|(count, _)| *count > 0);
        let mut words: Vec<String> = counts
            .map(|(count, what)| format!("{count} {what}"))
            .collect();
        if self.memory_moved_bytes > 0 {
            let bytes = egeria_stats::text::bytes(self.memory_moved_bytes as f64);
            words.push(format!("{bytes} of memory moved"));
        }
        let bytes = self.local_bytes + self.remote_bytes;
        if bytes > 0 {
            let share = self.local_bytes as f64 / bytes as f64 * 100.0;
            let bytes = egeria_stats::text::bytes(bytes as f64);
            words.push(format!("{bytes} on the volume, {share:.0} % local"));
        }
        let others = self.others.iter();
        words.extend(others.map(|(name, count)| format!("{} ({count})", name.replace('_', " "))));
        match (words.is_empty(), &self.nothing_because) {
            (true, Some(because)) => format!("nothing: {because}"),
            (true, None) => "nothing".to_owned(),
            (false, _) => words.join(", "),
        }
    }
}

/// One counted run.
#[derive(Clone, Debug)]
pub struct RunRecord {
    pub side: usize,
    pub elapsed_s: f64,
    /// CPU time of this process and its threads, as of a steward, s.
    pub own_s: Option<f64>,
    /// CPU time of the command or the service, s.
    pub command_s: Option<f64>,
    /// Share of the machine's CPU time that others had.
    pub others_share: Option<f64>,
    /// What a service did.
    pub activity: Option<Activity>,
}

/// What is kept of all counted runs.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// In the order of time.
    pub records: Vec<RunRecord>,
    /// Whether nothing accompanies the runs of each side, so that the trial's own CPU time is that of measuring.
    pub is_bare: Vec<bool>,
    /// What each side did.
    pub done: Vec<Done>,
}

impl Ledger {
    /// Of sides that are accompanied by nothing, or by something.
    pub(crate) fn new(is_bare: Vec<bool>) -> Ledger {
        Ledger {
            records: Vec::new(),
            done: vec![Done::default(); is_bare.len()],
            is_bare,
        }
    }

    /// The same, before the first run.
    pub(crate) fn cleared(&self) -> Ledger {
        Ledger::new(self.is_bare.clone())
    }

    /// CPU time of the trial's own process per CPU time of the command, in runs that nothing accompanies: what
    /// measuring costs. `None` without such runs.
    pub fn overhead(&self) -> Option<f64> {
        let bare = self.records.iter().filter(|run| self.is_bare[run.side]);
        let times = bare.filter_map(|run| run.own_s.zip(run.command_s));
        let (own_s, command_s) = times
            .fold((0.0, 0.0), |(own, command), (more_own, more_command)| {
                (own + more_own, command + more_command)
            });
        (command_s > 0.0).then(|| own_s / command_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overhead_is_that_of_runs_that_nothing_accompanies() {
        let mut ledger = Ledger::new(vec![true, false]);
        assert_eq!(ledger.overhead(), None);
        let run = |side, own_s, command_s| RunRecord {
            side,
            elapsed_s: 1.0,
            own_s: Some(own_s),
            command_s: Some(command_s),
            others_share: None,
            activity: None,
        };
        ledger.records = vec![run(0, 0.01, 1.0), run(1, 0.5, 1.0), run(0, 0.03, 3.0)];
        assert_eq!(ledger.overhead(), Some(0.01));
    }
}
