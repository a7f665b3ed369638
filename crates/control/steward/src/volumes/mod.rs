//! The volumes in use on the machine, with the processes that use them: one decision for both.
//!
//! ```text
//!   mounts of this user ──▶ joined: session attached, journal locked ──▶ facts of threads and files
//!        ▲                        │ unmounted: released within a window
//!        └── left out, said once ◀┘ (another steward works on it, emulated, no access)
//! ```
//!
//! A steward of some processes sees what these read and write through volumes. It takes no journal, because it changes
//! nothing of a volume.
//!
//! A mount of another user is left alone: what it says of itself leads where that user likes.

mod follow;
mod join;
mod merge;
mod role;

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

use egeria_facts::{FactSource, Facts, ThreadKey};
use egeria_machine::{Machine, NodeId};
use egeria_proc::masks::SharedMasks;
use egeria_proc::{LiveSource, Membership};

pub(crate) use follow::Following;
pub(crate) use role::Role;

/// A source of facts about processes, with what goes through the volumes that they use.
pub(crate) struct WithVolumes {
    inner: Box<dyn LiveSource>,
    following: Following,
}

impl WithVolumes {
    pub(crate) fn new(inner: Box<dyn LiveSource>, following: Following) -> WithVolumes {
        WithVolumes { inner, following }
    }
}

impl FactSource for WithVolumes {
    type Error = Infallible;

    fn machine(&self) -> &Machine {
        self.inner.machine()
    }

    fn next_facts(&mut self) -> Result<Option<Facts>, Infallible> {
        self.following.follow();
        let Some(mut facts) = self.inner.next_facts()? else {
            return Ok(None);
        };
        let threads = facts.window.threads.iter();
        let nodes: HashMap<ThreadKey, NodeId> =
            threads.map(|thread| (thread.key, thread.node)).collect();
        let parts = self.following.parts(&nodes);
        merge::add(&mut facts, parts);
        Ok(Some(facts))
    }
}

impl LiveSource for WithVolumes {
    fn dilation(&self) -> f64 {
        self.inner.dilation()
    }

    fn start_over(&mut self) {
        self.inner.start_over();
        self.following.start_over();
    }

    fn masks(&self) -> SharedMasks {
        self.inner.masks()
    }

    fn members(&self) -> Arc<dyn Membership> {
        self.inner.members()
    }
}
