//! Where in the program a flush or a fence is.

use std::fmt;
use std::panic::Location;

use super::event::Event;

/// What stands at a place.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum PlaceKind {
    /// Lines are written back, also by a store that bypasses the cache.
    Flush,
    /// What was written back before is durable.
    Fence,
}

/// A flush or fence in the program's source, however often it runs.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Place {
    /// Which of the two.
    pub kind: PlaceKind,
    /// The call, in the code that uses pools.
    pub caller: &'static Location<'static>,
}

impl Place {
    /// The place of an event, if it is a flush or a fence.
    pub fn of(event: &Event) -> Option<Place> {
        let (kind, caller) = match *event {
            Event::Flush { caller, .. } => (PlaceKind::Flush, caller),
            Event::Fence { caller, .. } => (PlaceKind::Fence, caller),
            Event::Store { .. } | Event::Mark(_) => return None,
        };
        Some(Place { kind, caller })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            PlaceKind::Flush => "flush",
            PlaceKind::Fence => "fence",
        };
        write!(out, "{kind} at {}", self.caller)
    }
}
