//! Why a thread moves or stays, with the numbers that decided it.

use std::fmt;

use egeria_machine::{NodeId, format_bandwidth};
use serde::{Deserialize, Serialize};

use crate::Expectation;

/// What threads contend for on a node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Contention {
    /// Bandwidth of its persistent memory (NThread §III-C1).
    Pm,
    /// Its CPUs (NThread §III-C2).
    Cpu,
}

impl fmt::Display for Contention {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Contention::Pm => "persistent memory",
            Contention::Cpu => "CPUs",
        })
    }
}

/// Why a thread moves.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Reason {
    /// Its data is there (NThread §III-A).
    RemoteReads {
        target: NodeId,
        /// What it reads from the target, bytes/s.
        target_bytes_s: f64,
        /// What it reads from the next best node, bytes/s.
        next_bytes_s: f64,
        /// By how much the target must lead, bytes/s.
        margin_bytes_s: f64,
    },
    /// Its data is there, and the contention that kept it away is over.
    ContentionOver {
        /// Where its data is.
        target: NodeId,
        /// What it reads from there, bytes/s.
        target_bytes_s: f64,
        /// `BW` of that node with this thread, as a share of the maximum; `None` if not judged.
        pm_share: Option<f64>,
        /// `CPU` of that node with this thread; `None` if not judged.
        cpu_share: Option<f64>,
    },
    /// It writes to a node with contended persistent memory (NThread §III-C1, Eqs. 1-4).
    PmContention {
        contended: NodeId,
        /// Its `BW_N` before this move, bytes/s.
        pm_bytes_s: f64,
        maximum_bytes_s: f64,
        /// The mean of `BW` over all nodes, bytes/s.
        average_bytes_s: f64,
        /// `D_migrate` of the contended node before this move, bytes/s: what it must shed.
        shed_bytes_s: f64,
        /// `D_migrate` of the node it goes to before this move, bytes/s: below 0, what that may
        /// take.
        room_bytes_s: f64,
        /// `D_write` of the thread, bytes/s.
        written_bytes_s: f64,
        /// `W_ratio` of the thread, in (0, 1].
        write_ratio: f64,
        /// What the path from its data to the new node carries for it, bytes/s, if it was chosen by that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path_bandwidth_bytes_s: Option<f64>,
    },
    /// It runs on a node with contended CPUs (NThread §III-C2, Eqs. 5 and 6).
    CpuContention {
        contended: NodeId,
        /// Its `CPU_N` when that was found.
        cpu_share: f64,
        /// `CPU_i`: what the thread needs of the CPUs of the node it goes to.
        thread_share: f64,
        /// `CPU_N` of the node it goes to before this move.
        target_share: f64,
        /// What that may come to.
        limit: f64,
        /// What the path from its data to the new node carries for it, bytes/s, if it was chosen by that.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        path_bandwidth_bytes_s: Option<f64>,
    },
    /// It was there before, and since threads moved they get less (the planner's feedback).
    BroughtLess {
        /// What all threads get, compared with before, in a geometric mean.
        speed: f64,
    },
    /// What threads do now was never seen where this one was before it moved: it goes there for a window, and on or
    /// not (the planner's feedback).
    Compared {
        /// What all threads get there, compared with their present nodes; `None` before that is known.
        speed: Option<f64>,
    },
    /// A policy with code of its own says why.
    Own { text: String },
    /// Its node has more threads than CPUs, or it is taken back from where it got less (stage `together`).
    Together { taken_back: bool },
}

impl Reason {
    /// The reason without its numbers, as JSON has it.
    pub fn name(&self) -> &'static str {
        match self {
            Reason::RemoteReads { .. } => "remote_reads",
            Reason::ContentionOver { .. } => "contention_over",
            Reason::PmContention { .. } => "pm_contention",
            Reason::CpuContention { .. } => "cpu_contention",
            Reason::BroughtLess { .. } => "brought_less",
            Reason::Compared { .. } => "compared",
            Reason::Own { .. } => "own",
            Reason::Together { .. } => "together",
        }
    }

    /// The contention it is about, if any.
    pub fn contention(&self) -> Option<Contention> {
        match self {
            Reason::RemoteReads { .. }
            | Reason::ContentionOver { .. }
            | Reason::BroughtLess { .. }
            | Reason::Compared { .. }
            | Reason::Own { .. }
            | Reason::Together { .. } => None,
            Reason::PmContention { .. } => Some(Contention::Pm),
            Reason::CpuContention { .. } => Some(Contention::Cpu),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = |bytes_s: &f64| format_bandwidth(*bytes_s);
        match self {
            Reason::RemoteReads {
                target,
                target_bytes_s,
                next_bytes_s,
                margin_bytes_s,
            } => write!(
                formatter,
                "it reads {} from node {} and at most {} from any other; {} more is enough",
                rate(target_bytes_s),
                target.0,
                rate(next_bytes_s),
                rate(margin_bytes_s)
            ),
            Reason::ContentionOver {
                target,
                target_bytes_s,
                pm_share,
                cpu_share,
            } => {
                let (read, node) = (rate(target_bytes_s), target.0);
                write!(
                    formatter,
                    "it reads {read} from node {node}, where there is room again"
                )?;
                write_shares(formatter, *pm_share, *cpu_share)
            }
            Reason::PmContention {
                contended,
                pm_bytes_s,
                maximum_bytes_s,
                average_bytes_s,
                room_bytes_s,
                written_bytes_s,
                write_ratio,
                path_bandwidth_bytes_s,
                ..
            } => write!(
                formatter,
                "the persistent memory of node {} is used with {} of {} (mean of the nodes {}); it \
                 writes {}, {} of what it moves, and the new node may take {} more",
                contended.0,
                rate(pm_bytes_s),
                rate(maximum_bytes_s),
                rate(average_bytes_s),
                rate(written_bytes_s),
                Percent(*write_ratio),
                rate(&-room_bytes_s)
            )
            .and_then(|()| write_path_bandwidth(formatter, *path_bandwidth_bytes_s)),
            Reason::CpuContention {
                contended,
                cpu_share,
                thread_share,
                target_share,
                limit,
                path_bandwidth_bytes_s,
            } => write!(
                formatter,
                "the CPUs of node {} would be {} busy; it needs {} of the new node's, which are {} \
                 busy and may be {}",
                contended.0,
                Percent(*cpu_share),
                Percent(*thread_share),
                Percent(*target_share),
                Percent(*limit)
            )
            .and_then(|()| write_path_bandwidth(formatter, *path_bandwidth_bytes_s)),
            Reason::BroughtLess { speed } => write!(
                formatter,
                "it was there before; since threads moved, all of them get {:.2} times as much in the mean",
                speed
            ),
            Reason::Compared { speed: None } => formatter.write_str(
                "it was there before it moved, and what threads do now was never seen there: for one window",
            ),
            Reason::Compared { speed: Some(speed) } => write!(
                formatter,
                "compared for what threads do now: there all of them get {speed:.2} times as much in the mean"
            ),
            Reason::Own { text } => formatter.write_str(text),
            Reason::Together { taken_back: false } => formatter.write_str(
                "its node has more threads than CPUs, and it is expected to get more there",
            ),
            Reason::Together { taken_back: true } => {
                formatter.write_str("programs got less done since it was moved, so it goes back")
            }
        }
    }
}

fn write_path_bandwidth(
    formatter: &mut fmt::Formatter<'_>,
    path_bandwidth_bytes_s: Option<f64>,
) -> fmt::Result {
    match path_bandwidth_bytes_s {
        Some(bytes_s) => write!(
            formatter,
            "; the path from its data carries {}",
            format_bandwidth(bytes_s)
        ),
        None => Ok(()),
    }
}

fn write_shares(
    formatter: &mut fmt::Formatter<'_>,
    pm_share: Option<f64>,
    cpu_share: Option<f64>,
) -> fmt::Result {
    if let Some(share) = pm_share {
        write!(formatter, "; with it, {} of its bandwidth", Percent(share))?;
    }
    if let Some(share) = cpu_share {
        write!(formatter, "; with it, {} of its CPUs", Percent(share))?;
    }
    Ok(())
}

/// Why a thread stays although something speaks for another node.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum KeptBecause {
    /// Its owner bound it to CPUs of his choice.
    Pinned,
    /// None of its allowed CPUs is on the node wanted.
    CpusExclude,
    /// The node wanted has memory only.
    NoCpus,
    /// It reads from another node, but no node leads by the margin (NThread §III-A).
    NoLead {
        /// The node it reads from most.
        best: NodeId,
        /// What it reads from there, bytes/s.
        best_bytes_s: f64,
        /// What it reads from the next best node, bytes/s.
        next_bytes_s: f64,
        /// By how much the best must lead, bytes/s.
        margin_bytes_s: f64,
    },
    /// Its node is contended, but it shares a file with another thread (NThread §III-D).
    Shared {
        /// For what its node is contended.
        contention: Contention,
    },
    /// Its node is contended, but no other node may take it (NThread Eqs. 4 and 5).
    NoRoom {
        /// For what its node is contended.
        contention: Contention,
    },
    /// The node of its data is, or would be, contended.
    HomeContended { contention: Contention },
    /// Its process may not spend what the move takes (the planner's budget).
    OverBudget {
        /// What the process has spent on moves, ns.
        spent_ns: u64,
        /// What the moves of its threads would take, ns.
        cost_ns: u64,
        /// What it may spend in all, ns.
        allowed_ns: u64,
    },
    /// It was sent there before and gained less than half of what was expected (the planner's feedback).
    BroughtTooLittle {
        /// What was expected then.
        expected: Expectation,
        /// What it came to.
        measured: f64,
        /// Windows until it may be tried again.
        windows: u32,
    },
}

impl fmt::Display for KeptBecause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeptBecause::Pinned => formatter.write_str("its owner bound it to CPUs"),
            KeptBecause::CpusExclude => {
                formatter.write_str("none of the CPUs it was given is on the node wanted")
            }
            KeptBecause::NoCpus => formatter.write_str("the node wanted has no CPUs"),
            KeptBecause::NoLead {
                best,
                best_bytes_s,
                next_bytes_s,
                margin_bytes_s,
            } => write!(
                formatter,
                "it reads {} from node {} and {} from the next, less than {} apart",
                format_bandwidth(*best_bytes_s),
                best.0,
                format_bandwidth(*next_bytes_s),
                format_bandwidth(*margin_bytes_s)
            ),
            KeptBecause::Shared { contention } => write!(
                formatter,
                "its node is contended for {contention}, but it shares a file with another thread"
            ),
            KeptBecause::NoRoom { contention } => write!(
                formatter,
                "its node is contended for {contention}, but no other node has room for it"
            ),
            KeptBecause::HomeContended { contention } => write!(
                formatter,
                "the node of its data would be contended for {contention}"
            ),
            KeptBecause::OverBudget {
                spent_ns,
                cost_ns,
                allowed_ns,
            } => write!(
                formatter,
                "its process has lost {:.1} ms to moves, these would take {:.1} ms, and {:.1} ms are allowed",
                *spent_ns as f64 / 1e6,
                *cost_ns as f64 / 1e6,
                *allowed_ns as f64 / 1e6
            ),
            KeptBecause::BroughtTooLittle {
                expected, windows, ..
            } => write!(
                formatter,
                "its last migration there brought less than half of {expected}; not again for {windows} windows"
            ),
        }
    }
}

/// A share as whole per cent.
struct Percent(f64);

impl fmt::Display for Percent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:.0} %", self.0 * 100.0)
    }
}
