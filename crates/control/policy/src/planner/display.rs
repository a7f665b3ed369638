//! Decisions in words: every step is one line.

use std::fmt;

use egeria_facts::FileKey;
use egeria_machine::{format_bandwidth, format_bytes};

use super::decision::{
    DelegatedBecause, DelegationPlan, DirectBecause, Limit, Relocate, RelocationReason,
    RelocationStep, Resting,
};

impl fmt::Display for Resting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{}: the last one brought less than half of {}; not again for {} windows",
            self.subject, self.expected, self.windows
        )
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "memory of node {}: {}",
            self.node.0, self.decision
        )?;
        match (self.delegates, self.bears) {
            (Some(delegates), _) => write!(formatter, "; raised to its {delegates} delegates"),
            (None, Some(bears)) => write!(
                formatter,
                "; raised to the {bears} it bears, for DRAM beside it is idle"
            ),
            (None, None) => Ok(()),
        }
    }
}

impl fmt::Display for DelegationPlan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DelegationPlan::Off { because } => write!(formatter, "nothing is delegated: {because}"),
            DelegationPlan::On {
                stripe_bytes,
                min_read_bytes,
                min_write_bytes,
                delegates_per_node,
                because,
            } => write!(
                formatter,
                "reads from {} and writes from {} are delegated to {delegates_per_node} per node, stripes of {}: {because}",
                format_bytes(*min_read_bytes),
                format_bytes(*min_write_bytes),
                format_bytes(*stripe_bytes)
            ),
        }
    }
}

impl fmt::Display for DirectBecause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DirectBecause::Stage => formatter.write_str("the stage is off"),
            DirectBecause::NoMedium => {
                formatter.write_str("no node is known to have persistent memory, or memory that gives less to many threads")
            }
            DirectBecause::NothingStriped => formatter.write_str("no file is striped"),
            DirectBecause::DidNotPay => formatter.write_str(
                "threads got less with it when it was tried, or other settings are being tried",
            ),
            DirectBecause::Quiet {
                node,
                demand,
                bears,
                remote_share,
            } => write!(
                formatter,
                "node {} has {demand} threads at its memory and bears {bears}, and {} go to other nodes",
                node.0,
                Percent(*remote_share)
            ),
        }
    }
}

impl fmt::Display for DelegatedBecause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DelegatedBecause::Always => formatter.write_str("the setting says always"),
            DelegatedBecause::Crowded {
                node,
                demand,
                bears,
            } => write!(
                formatter,
                "{demand} threads are at the memory of node {}, which bears {bears}",
                node.0
            ),
            DelegatedBecause::Remote {
                remote_share,
                limit,
            } => write!(
                formatter,
                "{} go to other nodes, {} are enough",
                Percent(*remote_share),
                Percent(*limit)
            ),
            DelegatedBecause::Long { node, mean_bytes } => write!(
                formatter,
                "accesses to node {} are of {} in the mean",
                node.0,
                format_bytes(*mean_bytes as u64)
            ),
            DelegatedBecause::Rests { windows } => {
                write!(formatter, "it was wanted {windows} windows ago")
            }
        }
    }
}

impl fmt::Display for RelocationStep {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write(formatter, &Name(self.file))
    }
}

impl RelocationStep {
    /// The step and its reason in one line, with the name of the file.
    pub fn sentence(&self, file: &str) -> String {
        let mut text = String::new();
        // Writing to a string cannot fail.
        let _ = self.write(&mut text, &file);
        text
    }

    fn write(&self, formatter: &mut dyn fmt::Write, file: &dyn fmt::Display) -> fmt::Result {
        match self.action {
            Relocate::Move { from, to } => {
                write!(
                    formatter,
                    "{file} goes from node {} to node {}",
                    from.0, to.0
                )?;
            }
            Relocate::Replicate { from, to } => {
                write!(
                    formatter,
                    "{file} of node {} is copied to node {}",
                    from.0, to.0
                )?;
            }
            Relocate::Drop { on } => {
                return write!(
                    formatter,
                    "the copy of {file} on node {} goes: {}",
                    on.0, self.why
                );
            }
        }
        let (bytes, rate) = (format_bytes(self.bytes), format_bandwidth(self.bytes_s));
        write!(formatter, " ({bytes} at {rate}): {}", self.why)?;
        if self.gain_threads > 0.0 {
            let (loss, horizon) = (self.loss_thread_s, self.horizon_ns as f64 / 1e9);
            let repaid = loss / self.gain_threads;
            write!(
                formatter,
                "; copying loses {loss:.2} thread seconds, which are repaid in {repaid:.1} s, before {horizon:.0} s"
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for RelocationReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RelocationReason::ReadContention {
                node,
                used_share,
                stretch,
                stretch_after,
            } => write!(
                formatter,
                "the memory of node {} is used to {}, reads take up to {stretch:.1} times as long, then {stretch_after:.1}",
                node.0,
                Percent(*used_share)
            ),
            RelocationReason::RemoteReads {
                remote_share,
                remote_bytes_s,
            } => write!(
                formatter,
                "{} of what is read of it, {}, go to other nodes",
                Percent(*remote_share),
                format_bandwidth(*remote_bytes_s)
            ),
            RelocationReason::MakesRoom {
                wanted,
                used_bytes_s,
            } => write!(
                formatter,
                "it makes room for {}, and is used with {}",
                Name(*wanted),
                format_bandwidth(*used_bytes_s)
            ),
            RelocationReason::Written { written_bytes } => {
                write!(
                    formatter,
                    "{} of the file were written",
                    format_bytes(*written_bytes)
                )
            }
            RelocationReason::BroughtLess { speed } => write!(
                formatter,
                "since it went there, all threads get {speed:.2} times as much in the mean"
            ),
            RelocationReason::Unread { windows } => {
                write!(formatter, "nobody has read it for {windows} windows")
            }
        }
    }
}

/// The file's name for readers.
struct Name(FileKey);

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "file {} of volume {}",
            self.0.inode, self.0.volume
        )
    }
}

/// A share as whole per cent.
struct Percent(f64);

impl fmt::Display for Percent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:.0} %", self.0 * 100.0)
    }
}
