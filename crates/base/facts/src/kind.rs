//! Processes that are gone before a policy could act on each of them.

use egeria_machine::NodeId;
use serde::{Deserialize, Serialize};

use crate::thread::total;
use crate::window::share;
use crate::{FileUse, ThreadKey};

/// Most kinds of processes in one window.
pub const MAX_KINDS: usize = 1 << 12;

/// In at least this number of the last 8 windows.
const OFTEN: u32 = 3;

/// Short-lived processes of one parent, together: those that ended in the window, and those that began in it. What they
/// begin themselves belongs to the same kind. [`ThreadFacts`] has nothing of what is counted here.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct KindFacts {
    /// The first thread of the parent, which has facts of its own. Its CPUs are inherited by processes that it begins.
    pub parent: ThreadKey,
    /// What most of them are called, for people; at most [`MAX_NAME_CHARS`](crate::MAX_NAME_CHARS) printable characters. Empty where that
    /// was not seen.
    pub command: String,
    /// In how many of the last 8 windows, this one included, some began or ended.
    pub windows: u32,
    /// How many of them were seen: in a list of processes, or by what they read or wrote.
    pub seen: u32,
    /// The node where they moved most bytes; `None` where that is not known.
    pub node: Option<NodeId>,
    /// Time for which they ran, ns. It is counted when they end.
    pub busy_ns: u64,
    /// Bytes that they read from each node; index = position in `Machine::nodes`. Empty where that is not counted.
    pub read_bytes: Vec<u64>,
    /// The same of what they wrote.
    pub written_bytes: Vec<u64>,
    /// Bytes read and written on the node of the process that did so.
    pub local_bytes: u64,
    /// The files that they used most, busiest first; at most [`MAX_FILES`](crate::MAX_FILES).
    pub files: Vec<FileUse>,
}

impl KindFacts {
    /// Processes of this parent that did nothing yet.
    pub fn idle(parent: ThreadKey) -> KindFacts {
        KindFacts {
            parent,
            command: String::new(),
            windows: 0,
            seen: 0,
            node: None,
            busy_ns: 0,
            read_bytes: Vec::new(),
            written_bytes: Vec::new(),
            local_bytes: 0,
            files: Vec::new(),
        }
    }

    /// Whether such processes come again and again. A single command of a shell says nothing of the next.
    pub fn is_often(&self) -> bool {
        self.windows >= OFTEN
    }

    /// Whether their parent is the first process of all. It begins services of all sorts, and gets orphans.
    pub fn is_of_init(&self) -> bool {
        self.parent.process_id == 1
    }

    /// Whether their parent is taken to have done what they did.
    pub fn is_credited(&self) -> bool {
        self.is_often() && !self.is_of_init()
    }

    /// Bytes read and written, on all nodes.
    pub fn moved_total(&self) -> u64 {
        total(&self.read_bytes).saturating_add(total(&self.written_bytes))
    }

    /// Share of the bytes that were on the node of the process that read or wrote them, in [0, 1]; `None` when there
    /// are none.
    pub fn local_share(&self) -> Option<f64> {
        let all = self.moved_total();
        share(self.local_bytes, all).map(|share| share.min(1.0))
    }
}
