//! What a case is tried on, and what is noted of it.

use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::hash::{DefaultHasher, Hash, Hasher};

/// What a case is tried on.
pub(super) trait Subject {
    /// How many samples there are to begin with.
    fn samples(&self) -> usize;

    /// Change the sample as the case says, and do with it whatever can be done. An error is what is wrong.
    fn attempt(&mut self, case: &Case, observed: &mut Observations) -> Result<(), String>;
}

/// An input: a sample, how it is used, and the changes, each by the number its chance follows from.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    pub(super) sample: u64,
    pub(super) use_seed: u64,
    pub(super) mutation_seeds: Vec<u64>,
}

/// What happened in a case: its kind, to know new kinds from old ones, and its story for who asks.
#[derive(Default)]
pub(super) struct Observations {
    kinds: HashSet<u64>,
    /// Somebody reads the story.
    pub(super) verbose: bool,
}

impl Observations {
    /// Tell a line of the story: at once, for the next may be the end.
    pub(super) fn line(&mut self, line: impl FnOnce() -> String) {
        if self.verbose {
            println!("  {}", line());
        }
    }

    /// Something happened; words count, numbers in them do not.
    pub(super) fn record(&mut self, what: &str) {
        let mut hasher = DefaultHasher::new();
        for word in what.split(|letter: char| !letter.is_alphabetic()) {
            word.hash(&mut hasher);
        }
        self.kinds.insert(hasher.finish());
        self.line(|| what.to_owned());
    }

    /// Forget the kinds, and give them out.
    pub(super) fn take_kinds(&mut self) -> impl Iterator<Item = u64> {
        std::mem::take(&mut self.kinds).into_iter()
    }
}

/// Messages are one line each, with something in it.
pub(super) fn one_line(text: &str) -> Result<(), String> {
    if text.is_empty() || text.contains('\n') {
        Err(format!("not one line: {text:?}"))
    } else {
        Ok(())
    }
}
