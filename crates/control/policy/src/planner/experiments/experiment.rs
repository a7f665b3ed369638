//! One change that waits to be judged: by what threads get in windows like those before it.

use super::progress::{Kinds, Progress};
use crate::swing::Swing;

/// How long to wait for a window like those before, in windows.
const PATIENCE_WINDOWS: u32 = 24;

/// A loss in this number of windows in a row is believed although it is not known how much windows differ anyway.
const UNSURE_WINDOWS: usize = 4;

/// Whether a change is to be undone.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Judged {
    /// Threads got less, but perhaps by chance; more windows will tell.
    Unsure,
    /// Threads get this part of what they got before.
    Loss(f64),
    /// Threads get as much or more.
    Good,
}

/// A change, and what threads got before it.
#[derive(Clone, Debug)]
pub(super) struct Experiment<T> {
    /// What was changed.
    pub(super) change: T,
    /// One window of each kind of work that has not occurred since.
    before: Kinds,
    /// Windows since the last change, without the first, in which the change works only in part.
    still_windows: u32,
    unrest_windows: u32,
    /// Windows that were compared.
    windows: u32,
    /// Logarithms of the speeds that may be losses by chance.
    doubtful_ln: Vec<f64>,
}

impl<T> Experiment<T> {
    pub(super) fn new(change: T, before: Kinds) -> Experiment<T> {
        Experiment {
            change,
            before,
            still_windows: 0,
            unrest_windows: 0,
            windows: 0,
            doubtful_ln: Vec::new(),
        }
    }

    /// What threads get in this window, compared with before; `None` if it cannot be compared.
    pub(super) fn judge(&mut self, progress: &Progress) -> Option<f64> {
        if self.still_windows == 0 {
            return None;
        }
        self.windows += 1;
        self.before.meet(progress)
    }

    /// Whether threads lose by it in this window and those before that could not decide it. `None` if the window cannot
    /// be compared.
    pub(super) fn judge_loss(
        &mut self,
        progress: &Progress,
        swing: &Swing,
        min_speed: f64,
    ) -> Option<Judged> {
        let before = self.before.like(progress).cloned();
        let speed = self.judge(progress)?;
        self.doubtful_ln.push(speed.ln());
        let windows = self.doubtful_ln.len();
        let speed = (self.doubtful_ln.iter().sum::<f64>() / windows as f64).exp();
        if !swing.is_loss(speed, min_speed) {
            self.doubtful_ln.clear();
            return Some(Judged::Good);
        }
        if swing.is_known() || windows >= UNSURE_WINDOWS {
            return Some(Judged::Loss(speed));
        }
        self.windows -= 1;
        self.before.put_back(before);
        Some(Judged::Unsure)
    }

    /// Takes a decision: whether it changes more of this, and whether all else is still. Data that goes on moving is
    /// waited for, at most for this number of windows.
    pub(super) fn note(&mut self, changes: bool, is_still: bool, max_unrest_windows: u32) {
        if changes {
            self.unrest_windows = 0;
        } else if !is_still {
            self.unrest_windows = self.unrest_windows.saturating_add(1);
        }
        let waits = !is_still && self.unrest_windows <= max_unrest_windows;
        self.still_windows = if changes || waits {
            0
        } else {
            self.still_windows + 1
        };
    }

    /// Whether nothing is left to compare with, or it did not come for long.
    pub(super) fn is_over(&self) -> bool {
        self.before.is_empty() || self.windows > PATIENCE_WINDOWS
    }

    /// Whether nothing changed in the window that was judged last.
    pub(super) fn is_still(&self) -> bool {
        self.still_windows > 0
    }

    /// How many windows were compared.
    pub(super) fn windows(&self) -> u32 {
        self.windows
    }
}

#[cfg(test)]
mod tests {
    use super::super::progress::{Progress, progress};
    use super::*;
    use egeria_facts::{CpuSet, Facts, ThreadFacts, ThreadKey, Window};
    use egeria_machine::{Machine, NodeId};

    /// A thread that reads this number of bytes in a window of a second.
    fn window(bytes: u64) -> Progress {
        let machine = Machine::profile("optane-1s").expect("a profile");
        let mut window = Window::empty(&machine, 0, 0, 1_000_000_000);
        let cpus = CpuSet::default();
        let mut thread = ThreadFacts::idle(ThreadKey::default(), NodeId(0), 1, cpus);
        thread.read_bytes = vec![bytes];
        window.threads.push(thread);
        progress(&Facts::of(window))
    }

    fn experiment() -> Experiment<()> {
        let mut before = Kinds::default();
        before.remember(window(1000));
        Experiment::new((), before)
    }

    #[test]
    fn only_a_still_window_after_a_change_is_judged() {
        let mut open = experiment();
        open.note(true, true, 4);
        assert_eq!((open.judge(&window(900)), open.is_over()), (None, false));
        open.note(false, true, 4);
        let speed = open.judge(&window(900)).expect("a still window");
        assert!((speed - 0.9).abs() < 1e-9 && open.is_over());
    }

    #[test]
    fn data_that_goes_on_moving_is_waited_for_not_for_ever() {
        let mut open = experiment();
        for _ in 0..4 {
            open.note(false, false, 4);
            assert_eq!(open.judge(&window(900)), None);
        }
        open.note(false, false, 4);
        assert!(open.judge(&window(900)).is_some());
    }

    #[test]
    fn other_work_is_waited_for_not_for_ever() {
        let mut open = experiment();
        open.note(false, true, 4);
        let windows = (0..=PATIENCE_WINDOWS).take_while(|_| {
            assert_eq!(open.judge(&Progress::new()), None);
            !open.is_over()
        });
        assert_eq!(windows.count(), PATIENCE_WINDOWS as usize);
    }
}
