//! All settings of the planner.

use serde::{Deserialize, Serialize};

use crate::nthread::Configuration;
use crate::{asymsched, mba, nthread, pats, together};

/// The planner's own stages, each on or off. NThread's (targets, contention for persistent memory and CPUs, sharing)
/// are switched in [`nthread::Settings::stages`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Stages {
    /// Threads and the memory that they use come together (ours).
    pub together: bool,
    /// Clusters of memory sharers are placed (AsymSched).
    pub clusters: bool,
    /// Threads displaced by contention go where the way from their data is widest (ours; off: where NThread sends
    /// them).
    pub bandwidth: bool,
    /// Hot data that is read goes to its readers, or where there is bandwidth for reads (ours).
    pub relocation: bool,
    /// Threads at persistent memory are limited (PATS).
    pub limits: bool,
    /// Long accesses are delegated (OdinFS).
    pub delegation: bool,
    /// Programs that do not ask for admission get a share of their bandwidth where a memory has too many threads (ours;
    /// off, also in `all`: the CPU slows programs down for others).
    pub mba: bool,
    /// All moves are paid from one budget (ours; off: only AsymSched has its own).
    pub budget: bool,
    /// An action that brought less than half of what was expected is not repeated for a while (ours).
    pub feedback: bool,
}

/// Everything that can be set.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// The planner's own stages.
    pub stages: Stages,
    /// Threads that follow their data.
    pub nthread: nthread::Settings,
    /// Limits. If the machine says how many DIMMs a node has and `dimms` is 1, the machine's number counts.
    pub pats: pats::Settings,
    pub asymsched: asymsched::Settings,
    /// When threads and memory come together.
    pub together: together::Settings,
    /// Which nodes have a limit.
    pub limits: Limits,
    pub delegation: Delegation,
    pub relocation: Relocation,
    /// When programs that do not ask are bounded.
    pub mba: mba::Settings,
    /// The budget of all moves.
    pub budget: Budget,
    /// Actions that brought too little.
    pub feedback: Feedback,
}

impl Settings {
    /// No stage is on. What a stage that is switched on then does is as its paper says.
    pub fn nothing() -> Settings {
        Settings {
            stages: Stages::default(),
            nthread: nthread::Settings::of(Configuration::Off),
            pats: pats::Settings::default(),
            asymsched: asymsched::Settings::default(),
            together: together::Settings::default(),
            limits: Limits::default(),
            delegation: Delegation::default(),
            relocation: Relocation::default(),
            mba: mba::Settings::default(),
            budget: Budget::default(),
            feedback: Feedback::default(),
        }
    }

    /// Every stage is on but `mba`, which is to be asked for; limits and delegation are set where they are expected to help.
    pub fn everything() -> Settings {
        let mut settings = Settings {
            stages: Stages {
                together: true,
                clusters: true,
                bandwidth: true,
                relocation: true,
                limits: true,
                delegation: true,
                mba: false,
                budget: true,
                feedback: true,
            },
            nthread: nthread::Settings::of(Configuration::Full),
            ..Settings::nothing()
        };
        settings.limits.always = false;
        settings.delegation.always = false;
        settings
    }

    /// Judges persistent memory by its curve, as [`nthread::PmRule`] says.
    pub(super) fn by_curve(mut self) -> Settings {
        self.nthread.pm_rule = nthread::PmRule::Curve;
        self
    }

    /// Part of its running time for which the memory of a process may be migrated.
    pub fn migration_share(&self) -> f64 {
        if self.stages.budget {
            self.budget.share
        } else {
            self.asymsched.budget
        }
    }

    /// Whether single threads may move.
    pub fn moves_threads(&self) -> bool {
        let stages = self.nthread.stages;
        stages.remote || stages.pm || stages.cpu
    }
}

/// Which nodes have a limit.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Set limits on all nodes, as PATS says. Off: only where more threads than that are at persistent memory, and not
    /// below what the medium bears while DRAM of the node is idle (ours). On other nodes threads need no admission.
    pub always: bool,
    /// A node's limit stays for this number of windows after it was last reached; DRAM counts as in use for as many
    /// (ours: 10).
    pub rest_windows: u32,
}

/// Delegation. The slides give no numbers: the sizes and the count are the defaults of the published artifact.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Delegation {
    /// Delegates in every window (OdinFS); off: only where it is expected to help (ours).
    pub always: bool,
    /// New data is spread over the nodes in pieces of this size, bytes (32 KiB).
    pub stripe_bytes: u64,
    /// Reads of this size and more are delegated, bytes (32 KiB).
    pub min_read_bytes: u64,
    /// Writes of this size and more are delegated, bytes (256).
    pub min_write_bytes: u64,
    /// Threads that access persistent memory for others, per node; 0: as many as its bandwidth curve says (ours: 0; the
    /// artifact: 1).
    pub delegates_per_node: u32,
    /// Share of remote bytes from which on delegation is expected to help (ours: 0.25).
    pub remote_limit: f64,
    /// Once on, it stays on for this number of windows after it was last wanted (ours: 10).
    pub rest_windows: u32,
}

/// Relocation (ours).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Relocation {
    /// Copying must be repaid within this time, ms (30,000).
    pub horizon_ms: u64,
    /// Files with a larger share of written bytes than this are not moved (0.05).
    pub max_written_share: f64,
    /// Files with fewer reads than this are not considered, bytes/s (100 MB/s, half of NThread's margin).
    pub min_read_bytes_s: f64,
    /// Copying takes at most this share of a memory's or link's bandwidth (0.25).
    pub copy_share: f64,
    /// Most new copies and moves in a window (8).
    pub max_steps: u32,
    /// Files used less than this may be put on nodes without CPUs, bytes/s (1 MB/s).
    pub cold_bytes_s: f64,
    /// Nodes may get read-only copies of files (true).
    pub replicas: bool,
    /// A file rests for this number of windows after it was moved, and 16 times as long before it goes back (10).
    pub rest_windows: u32,
}

/// What may be spent on moving (AsymSched §4.2, Step 4, for all that moves).
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Budget {
    /// Part of its running time that a process may lose (0.05).
    pub share: f64,
    /// The cost of a move for a thread, ns (ours: 100,000; calibrate). The process is charged the thread's fraction of
    /// it, by the number of its threads.
    pub thread_move_ns: u64,
}

/// Handling of actions that brought too little (ours).
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Feedback {
    /// A thread is not sent to a node where it gained too little for this number of windows (10); twice as long after
    /// each further miss.
    pub rest_windows: u32,
    /// Limits and delegation are each tried for this number of windows (2).
    pub trial_windows: u32,
    /// What trials found holds for this number of windows (600).
    pub retry_windows: u32,
}

impl Default for Feedback {
    fn default() -> Feedback {
        Feedback {
            rest_windows: 10,
            trial_windows: 2,
            retry_windows: 600,
        }
    }
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            always: true,
            rest_windows: 10,
        }
    }
}

impl Default for Delegation {
    fn default() -> Delegation {
        Delegation {
            always: true,
            stripe_bytes: 32 << 10,
            min_read_bytes: 32 << 10,
            min_write_bytes: 256,
            delegates_per_node: 0,
            remote_limit: 0.25,
            rest_windows: 10,
        }
    }
}

impl Default for Relocation {
    fn default() -> Relocation {
        Relocation {
            horizon_ms: 30_000,
            max_written_share: 0.05,
            min_read_bytes_s: 100e6,
            copy_share: 0.25,
            max_steps: 8,
            cold_bytes_s: 1e6,
            replicas: true,
            rest_windows: 10,
        }
    }
}

impl Default for Budget {
    fn default() -> Budget {
        Budget {
            share: 0.05,
            thread_move_ns: 100_000,
        }
    }
}

impl Default for Settings {
    /// The policy `all`.
    fn default() -> Settings {
        Settings::everything().by_curve()
    }
}
