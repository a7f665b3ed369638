//! What sides are, what accompanies them, and what is kept of each run.

use egeria_files::Result;
use serde::Serialize;

/// Begins what accompanies one run.
pub type Begin<'a> = Box<dyn Fn() -> Result<Box<dyn Treatment>> + 'a>;

/// What accompanies a run. Dropping it undoes what it did, too.
pub trait Treatment {
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
    pub(crate) fn add(&mut self, more: Done) {
        self.threads_moved += more.threads_moved;
        self.processes_moved += more.processes_moved;
        self.memory_moved_bytes += more.memory_moved_bytes;
        for (name, count) in more.others {
            match self.others.iter_mut().find(|(known, _)| *known == name) {
                Some((_, sum)) => *sum += count,
                None => self.others.push((name, count)),
            }
        }
        self.nothing_because = more.nothing_because;
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
    /// Share of the machine's CPU time that others had.
    pub others_share: Option<f64>,
}

/// What is kept of all counted runs.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    /// In the order of time.
    pub records: Vec<RunRecord>,
    /// What each side did.
    pub done: Vec<Done>,
}

impl Ledger {
    /// Of this number of sides.
    pub(crate) fn new(sides: usize) -> Ledger {
        Ledger {
            records: Vec::new(),
            done: vec![Done::default(); sides],
        }
    }
}
