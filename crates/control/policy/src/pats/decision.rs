//! What was measured, what the limit became, and why.

use std::fmt;

use serde::{Deserialize, Serialize};

use egeria_facts::Mix;

/// A limit, and why.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Decision {
    /// How many threads may access persistent memory at once from now on: `T_S`.
    pub limit: u32,
    pub because: Because,
    /// What came of the limit that was tried until now, if one was.
    pub tried: Option<Tried>,
}

/// What came of a limit that was tried.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
pub struct Tried {
    pub limit: u32,
    /// How much more went through persistent memory than with the limit before, a share.
    pub gain: f64,
    /// How much of the best throughput of DRAM was lost, a share.
    pub loss: f64,
    /// Whether it took the place of the limit before.
    pub taken: bool,
}

/// Why the limit is what it is.
#[derive(Clone, Copy, PartialEq, Debug, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Because {
    /// Eq. 1 says so for these requests.
    Formula {
        /// What was asked for.
        mix: Mix,
    },
    /// With more threads, the curve of the memory falls; it is not persistent, so Eq. 1 says nothing of it.
    Curve {
        /// What was asked for.
        mix: Mix,
    },
    /// Nothing was asked for, or nothing could be measured: it stays.
    Idle,
    /// It is being measured.
    Measuring,
    /// With one thread at a time, DRAM is measured as nearly undisturbed as can be.
    Reference,
    /// Throughput changed so much that all must be learned again, beginning with DRAM.
    Changed {
        /// Change of persistent memory, a share of before.
        pm: f64,
        /// Change of DRAM, a share of before.
        dram: f64,
    },
    /// It may be better than the best so far.
    Trying {
        /// The best so far.
        best: u32,
    },
    /// Nothing better is known.
    Settled,
}

impl fmt::Display for Decision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(tried) = &self.tried {
            write!(formatter, "{tried}; ")?;
        }
        let threads = if self.limit == 1 { "thread" } else { "threads" };
        write!(
            formatter,
            "{} {threads} at once: {}",
            self.limit, self.because
        )
    }
}

impl fmt::Display for Tried {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let outcome = if self.taken { "taken" } else { "not taken" };
        write!(
            formatter,
            "{} was tried and {outcome} (persistent memory {}, DRAM {} below its best)",
            self.limit,
            Change(self.gain),
            Percent(self.loss)
        )
    }
}

impl fmt::Display for Because {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Because::Formula { mix } => write!(
                formatter,
                "Eq. 1 for {} requests of {:.0} B, {} writes",
                mix.requests,
                mix.mean_bytes,
                Percent(mix.write_share)
            ),
            Because::Curve { mix } => write!(
                formatter,
                "with more it gives less by its curve, for {} requests, {} writes",
                mix.requests,
                Percent(mix.write_share)
            ),
            Because::Idle => formatter.write_str("nothing was asked for, so it stays"),
            Because::Measuring => formatter.write_str("it is being measured"),
            Because::Reference => formatter.write_str("to see DRAM undisturbed"),
            Because::Changed { pm, dram } => write!(
                formatter,
                "the work changed (persistent memory {}, DRAM {}), so DRAM is looked at undisturbed",
                Change(*pm),
                Change(*dram)
            ),
            Because::Trying { best } => write!(formatter, "it may be better than {best}"),
            Because::Settled => formatter.write_str("the best that is known"),
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

/// A change as whole per cent with its sign.
struct Change(f64);

impl fmt::Display for Change {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{:+.0} %", self.0 * 100.0)
    }
}
