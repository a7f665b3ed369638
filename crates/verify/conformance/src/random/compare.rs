//! A program, run where it is tested and where it is right.

use super::lockstep::{Stage, Trace};
use super::program::Program;

/// Where programs run: the directory in question, and the one that is right.
pub(crate) struct Stages<'s> {
    pub tested: Stage<'s>,
    pub right: Stage<'s>,
}

/// What is compared: how a program went in both.
pub(crate) struct Pair {
    pub tested: Trace,
    pub right: Trace,
}

impl Stages<'_> {
    /// Run it in both; the one that is right first, for it says how long steps may be.
    pub fn compare(&self, program: &Program) -> Pair {
        let right = self.right.run(program);
        let tested = self.tested.run(program);
        Pair { tested, right }
    }
}

impl Pair {
    /// The first step that was answered otherwise.
    pub fn first(&self) -> Option<usize> {
        let both = self.tested.outcomes.iter().zip(&self.right.outcomes);
        both.into_iter().position(|(one, other)| one != other)
    }

    pub fn differs(&self) -> bool {
        self.tested != self.right
    }

    /// What differs, in words.
    pub fn words(&self, program: &Program) -> String {
        let step = |step: usize| program.steps.get(step).map(|step| step.action);
        if let Some(at) = self.first() {
            let [tested, right] = [&self.tested, &self.right].map(|trace| trace.outcomes[at]);
            return format!("step {at} answered {tested}; right is {right}");
        }
        let broken = |who: &str, trace: &Trace| {
            let at = trace.outcomes.len();
            let words = trace.broken.as_ref()?;
            Some(match step(at) {
                Some(action) => format!("{who}step {at}, {action:?}: {words}"),
                None => format!("{who}after the last step: {words}"),
            })
        };
        broken("", &self.tested)
            .or_else(|| broken("where it is right: ", &self.right))
            .unwrap_or_default()
    }
}
