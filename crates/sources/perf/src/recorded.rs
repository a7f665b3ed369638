//! What was in a ring, recorded.

use std::collections::VecDeque;
use std::time::Duration;

use crate::event::Kind;
use crate::record;
use crate::taken::{AccessEvents, Taken};

/// Gives one recording after the other, each as [`crate::EventSampler::take_raw`] had it, and then none.
#[derive(Clone, Debug)]
pub struct RecordedRings {
    /// What samples are of.
    pub kind: Kind,
    /// How long each took.
    pub took: Duration,
    /// The bytes, which need not make sense.
    pub rings: VecDeque<Vec<u8>>,
}

impl AccessEvents for RecordedRings {
    fn kind(&self) -> Kind {
        self.kind
    }

    fn take(&mut self) -> Taken {
        let mut taken = Taken {
            took: self.took,
            ..Taken::default()
        };
        let bytes = self.rings.pop_front().unwrap_or_default();
        let into = &mut taken.accesses;
        taken.tally = record::decode(&bytes, |access| into.push(access));
        taken
    }
}
