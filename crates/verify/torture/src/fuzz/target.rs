//! What is fuzzed.

use serde::{Deserialize, Serialize};
use std::fmt;

use super::subject::Subject;
use super::{image, machine, other_user, path, request, settings, trace, workload};
use crate::names::named;

named! {
    /// A kind of input nobody vouches for.
    #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
    #[serde(rename_all = "kebab-case")]
    pub enum Target {
        /// Pools of a volume.
        Image = "image",
        /// What the kernel asks a mount.
        Request = "request",
        /// Recordings of windows.
        Trace = "trace",
        /// Machine files, sysfs trees.
        Machine = "machine",
        /// Settings of policies, lists of CPUs, decision logs.
        Settings = "settings",
        /// Workloads of the model.
        Workload = "workload",
        /// Paths that lead astray.
        Path = "path",
        /// What another user of the machine leaves for root's commands.
        OtherUser = "other-user",
    }
}

impl Target {
    /// Bytes of heap that no case may need: inputs are small, only counts that are believed need more.
    pub(super) fn heap_bytes(self) -> u64 {
        match self {
            Target::Image => 96 << 20,
            Target::Request => 160 << 20,
            // Twice the bytes of root's pools, to compare.
            Target::OtherUser => 160 << 20,
            // A recording of the most threads and nodes that are allowed is that large.
            Target::Trace => 1 << 30,
            Target::Machine | Target::Settings | Target::Workload | Target::Path => 64 << 20,
        }
    }

    /// Why it cannot be tried here; nothing when it can.
    pub fn missing(self) -> Option<&'static str> {
        match self {
            Target::Path => path::missing(),
            Target::OtherUser => other_user::missing(),
            _ => None,
        }
    }

    pub(super) fn subject(self) -> Result<Box<dyn Subject>, String> {
        Ok(match self {
            Target::Image => Box::new(image::Images::default()),
            Target::Request => Box::new(request::Requests::default()),
            Target::Trace => Box::new(trace::Traces::new()?),
            Target::Machine => Box::new(machine::Machines::new()?),
            Target::Settings => Box::new(settings::Texts::new()?),
            Target::Workload => Box::new(workload::Workloads::new()?),
            Target::Path => Box::new(path::Paths::new()?),
            Target::OtherUser => Box::new(other_user::OtherUser::new()?),
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}
