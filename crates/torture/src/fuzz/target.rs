//! What is fuzzed, and what one case of it is.

use serde::{Deserialize, Serialize};
use std::collections::HashSet;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use super::{image, machine, request, settings, stranger, trace, workload};

/// A kind of input nobody vouches for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Target {
    /// Pools of a volume.
    Image,
    /// What the kernel asks a mount.
    Request,
    /// Recordings of windows.
    Trace,
    /// Machine files, sysfs trees.
    Machine,
    /// Settings of policies, lists of CPUs, decision logs.
    Settings,
    /// Workloads of the model.
    Workload,
    /// What another user of the machine leaves for root's commands.
    Stranger,
}

impl Target {
    /// All of them.
    pub const ALL: [Target; 7] = [
        Target::Image,
        Target::Request,
        Target::Trace,
        Target::Machine,
        Target::Settings,
        Target::Workload,
        Target::Stranger,
    ];

    /// As on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Target::Image => "image",
            Target::Request => "request",
            Target::Trace => "trace",
            Target::Machine => "machine",
            Target::Settings => "settings",
            Target::Workload => "workload",
            Target::Stranger => "stranger",
        }
    }

    /// Bytes of heap that no case may need: inputs are small, only counts that are believed need more.
    pub(super) fn heap_bytes(self) -> u64 {
        match self {
            Target::Image => 96 << 20,
            Target::Request => 160 << 20,
            // Twice the bytes of root's pools, to compare.
            Target::Stranger => 160 << 20,
            // A recording of the most threads and nodes that are allowed is that large.
            Target::Trace => 1 << 30,
            Target::Machine | Target::Settings | Target::Workload => 64 << 20,
        }
    }

    /// Why it cannot be tried here; nothing when it can.
    pub fn missing(self) -> Option<&'static str> {
        match self {
            Target::Stranger => stranger::missing(),
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
            Target::Stranger => Box::new(stranger::Strangers::new()?),
        })
    }
}

impl fmt::Display for Target {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// What a case is tried on.
pub(super) trait Subject {
    /// How many samples there are to begin with.
    fn samples(&self) -> usize;

    /// Change the sample as the case says, and do with it whatever can be done. An error is what is wrong.
    fn attempt(&mut self, case: &Case, told: &mut Told) -> Result<(), String>;
}

/// An input: a sample, how it is used, and the changes, each by the number its chance follows from.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    pub(super) sample: u64,
    pub(super) how: u64,
    pub(super) steps: Vec<u64>,
}

/// What happened in a case: its kind, to know new kinds from old ones, and its story for who asks.
#[derive(Default)]
pub(super) struct Told {
    kinds: HashSet<u64>,
    /// Somebody reads the story.
    pub(super) aloud: bool,
}

impl Told {
    /// Tell a line of the story: at once, for the next may be the end.
    pub(super) fn line(&mut self, line: impl FnOnce() -> String) {
        if self.aloud {
            println!("  {}", line());
        }
    }

    /// Something happened; words count, numbers in them do not.
    pub(super) fn happened(&mut self, what: &str) {
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
    match text.is_empty() || text.contains('\n') {
        true => Err(format!("not one line: {text:?}")),
        false => Ok(()),
    }
}
