//! Where facts come from.

use egeria_machine::Machine;

use crate::Facts;

/// Provides the facts of one window after another: a live session, /proc, a recording, the simulator.
pub trait FactSource {
    /// Why there are no more facts.
    type Error;

    /// The machine that the facts are about.
    fn machine(&self) -> &Machine;

    /// Ends the window under way and begins the next. `None`: there are no more, as at the end of a recording.
    ///
    /// # Errors
    /// When the source cannot be read any more; facts that it gave are [valid](Facts::validate).
    fn next_facts(&mut self) -> Result<Option<Facts>, Self::Error>;
}

impl<S: FactSource + ?Sized> FactSource for Box<S> {
    type Error = S::Error;

    fn machine(&self) -> &Machine {
        (**self).machine()
    }

    fn next_facts(&mut self) -> Result<Option<Facts>, Self::Error> {
        (**self).next_facts()
    }
}
