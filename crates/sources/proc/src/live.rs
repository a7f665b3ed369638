//! What sources of live facts have in common.

use std::convert::Infallible;
use std::sync::Arc;

use egeria_facts::{FactSource, ThreadKey};

use crate::masks::SharedMasks;

/// Decides which threads may be acted upon.
pub trait Membership: Send + Sync {
    /// Whether this is still the same thread, and one that may be acted upon. To be called right before an action: ids
    /// are reused, and a process may have become another program.
    fn holds(&self, thread: ThreadKey) -> bool;
}

/// Facts of threads that run now.
pub trait LiveSource: FactSource<Error = Infallible> + Send {
    /// Host ns per ns of the machine's clock; 1 where the machine is real.
    fn dilation(&self) -> f64;

    /// Starts a new window, and counts windows from 0.
    fn start_over(&mut self);

    /// The CPUs of the threads watched.
    fn masks(&self) -> SharedMasks;

    /// Decides which threads may be acted upon.
    fn members(&self) -> Arc<dyn Membership>;
}

impl<S: LiveSource + ?Sized> LiveSource for Box<S> {
    fn dilation(&self) -> f64 {
        (**self).dilation()
    }

    fn start_over(&mut self) {
        (**self).start_over();
    }

    fn masks(&self) -> SharedMasks {
        (**self).masks()
    }

    fn members(&self) -> Arc<dyn Membership> {
        (**self).members()
    }
}
