//! The history of files: rests, copies under way, writes.

use std::collections::BTreeMap;

use egeria_facts::FileKey;

use super::candidates::Candidate;
use crate::planner::decision::Relocate;
use crate::planner::settings::Relocation;

/// A copy is given up when it takes longer than it should by this factor, and some more windows.
const PATIENCE: f64 = 3.0;
/// The number of these windows.
const PATIENCE_WINDOWS: u32 = 3;
/// Share of the data to move that may be left at the source.
const REST_SHARE: f64 = 0.05;
/// A file goes back to its old node after this number of rests, twice as many each time.
const RETURN_RESTS: u32 = 16;
/// That number is doubled at most this often.
const MAX_DOUBLINGS: u32 = 10;

/// The history of one file.
#[derive(Clone, Debug, Default)]
pub(super) struct History {
    /// Windows for which it stays.
    rest: u32,
    /// Windows for which it does not go where it was before.
    no_return: u32,
    /// How often it came back to where it had been, or a copy was given up.
    times: u32,
    /// Source and target of its last step.
    last: Option<(usize, usize)>,
    /// Nodes that it left, or that gave up a copy, by position.
    left: u64,
    under_way: Option<UnderWay>,
    /// How long the file was not written, as far as that was observed, ns.
    pub(super) unwritten_ns: u64,
    /// Windows without a read of the copy on a node, by position.
    unread: Vec<u32>,
    is_seen: bool,
}

/// A copy under way. Nodes are positions.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnderWay {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) bytes: u64,
    pub(super) bytes_s: f64,
    pub(super) is_replica: bool,
    /// Most bytes that should be on the source in the end.
    left_bytes: u64,
    /// What was on the source in the last window that the file was used.
    there_bytes: u64,
    windows_left: u32,
}

/// The histories of all files.
#[derive(Clone, Debug, Default)]
pub(super) struct Histories {
    files: BTreeMap<FileKey, History>,
}

impl Histories {
    /// A window has passed. A file at rest that was not seen is forgotten.
    pub(super) fn pass(&mut self, candidates: &[Candidate<'_>], duration_ns: u64) {
        for history in self.files.values_mut() {
            history.rest = history.rest.saturating_sub(1);
            history.no_return = history.no_return.saturating_sub(1);
            history.is_seen = false;
        }
        for candidate in candidates {
            let history = self.files.entry(candidate.facts.file).or_default();
            history.look(candidate, duration_ns);
        }
        self.files.retain(|_, history| {
            if !history.is_seen {
                history.wait();
            }
            history.is_seen || history.no_return > 0 || history.under_way.is_some()
        });
    }

    pub(super) fn of(&self, file: FileKey) -> Option<&History> {
        self.files.get(&file)
    }

    /// The copies under way.
    pub(super) fn under_way(&self) -> impl Iterator<Item = &UnderWay> {
        self.files
            .values()
            .filter_map(|history| history.under_way.as_ref())
    }

    /// A step for a file was decided. The file then rests, and does not come back for long.
    pub(super) fn set_off(&mut self, file: FileKey, settings: &Relocation, copy: UnderWay) {
        let history = self.files.entry(file).or_default();
        let returns = history.left >> copy.to & 1 == 1;
        history.rest(settings, returns);
        history.left |= u64::from(!copy.is_replica) << copy.from;
        history.last = Some((copy.from, copy.to));
        history.under_way = Some(copy);
    }

    /// A node gives up its copy.
    pub(super) fn give_up(&mut self, file: FileKey, settings: &Relocation, node: usize) {
        let history = self.files.entry(file).or_default();
        history.left |= 1 << node;
        history.rest(settings, true);
    }
}

impl UnderWay {
    /// A copy that starts now.
    pub(super) fn new(
        candidate: &Candidate<'_>,
        action: Relocate,
        (from, to): (usize, usize),
        (bytes, bytes_s): (u64, f64),
        window_s: f64,
    ) -> UnderWay {
        let windows = bytes as f64 / bytes_s / window_s * PATIENCE;
        let left = candidate.facts.on(from).saturating_sub(bytes);
        UnderWay {
            from,
            to,
            bytes,
            bytes_s,
            is_replica: matches!(action, Relocate::Replicate { .. }),
            there_bytes: candidate.facts.on(from),
            left_bytes: left.saturating_add((bytes as f64 * REST_SHARE) as u64),
            windows_left: (windows.min(1e6) as u32).saturating_add(PATIENCE_WINDOWS),
        }
    }

    /// A window passed. A copy that goes on is waited for, however slow it is.
    fn pass(&mut self, candidate: &Candidate<'_>) {
        let there_bytes = candidate.facts.on(self.from);
        let goes_on = !self.is_replica && there_bytes < self.there_bytes;
        self.there_bytes = there_bytes;
        self.windows_left = self.windows_left.saturating_sub(1);
        if goes_on {
            self.windows_left = self.windows_left.max(PATIENCE_WINDOWS);
        }
    }

    fn is_done(&self, candidate: &Candidate<'_>) -> bool {
        if self.is_replica {
            candidate.facts.has_replica(self.to)
        } else {
            candidate.facts.on(self.from) <= self.left_bytes
        }
    }
}

impl History {
    fn rest(&mut self, settings: &Relocation, returns: bool) {
        self.times = self.times.saturating_add(u32::from(returns));
        let doublings = self.times.min(MAX_DOUBLINGS);
        self.rest = settings.rest_windows;
        self.no_return = self.rest.saturating_mul(RETURN_RESTS << doublings);
    }

    /// Whether the file may go from one node to another now. It may not go back soon to a node that it left. While it
    /// rests, it may only go to the target of its last step.
    pub(super) fn may_go(&self, from: usize, to: usize) -> bool {
        let returns = self.left >> to & 1 == 1 && self.no_return > 0;
        let gathers = self.last.is_some_and(|last| last.0 != from && last.1 == to);
        !returns && self.under_way.is_none() && (self.rest == 0 || gathers)
    }

    /// Whether the file may go somewhere now.
    pub(super) fn is_free(&self) -> bool {
        self.rest == 0 && self.under_way.is_none()
    }

    /// Whether a copy of it is under way.
    pub(super) fn is_under_way(&self) -> bool {
        self.under_way.is_some()
    }

    /// Windows without a read of the copy on a node.
    pub(super) fn unread(&self, node: usize) -> u32 {
        self.unread.get(node).copied().unwrap_or_default()
    }

    fn look(&mut self, candidate: &Candidate<'_>, duration_ns: u64) {
        self.is_seen = true;
        self.unwritten_ns = match candidate.facts.written_bytes {
            0 => self.unwritten_ns.saturating_add(duration_ns),
            _ => 0,
        };
        self.unread.resize(candidate.reads.len(), 0);
        for (node, unread) in self.unread.iter_mut().enumerate() {
            let is_idle = candidate.facts.has_replica(node) && candidate.read_from(node) <= 0.0;
            *unread = if is_idle { unread.saturating_add(1) } else { 0 };
        }
        if let Some(copy) = &mut self.under_way {
            copy.pass(candidate);
        }
        let goes_on = |copy: &UnderWay| copy.windows_left > 0 && !copy.is_done(candidate);
        self.under_way = self.under_way.filter(goes_on);
    }

    fn wait(&mut self) {
        if let Some(copy) = &mut self.under_way {
            copy.windows_left = copy.windows_left.saturating_sub(1);
        }
        self.under_way = self.under_way.filter(|copy| copy.windows_left > 0);
    }
}
