//! Equations 1 to 4: how many threads may access persistent memory at once (PATS §III-C).
//!
//! ```text
//!   T_S = floor((1 + 2 T_mc) P_rw + (1 + T_mc) P_N + P_size)      Eq. 1
//!   P_rw = 3 - W_r                                                Eq. 2
//!   P_N = N - 1                                                   Eq. 3
//!   P_size = 0 for S >= 256 B, else 2 * 256 B / S - 1             Eq. 4
//! ```
//!
//! All terms are numbers of threads. For writes of 256 B and more on one DIMM, Eq. 1 gives 2 for
//! every `T_mc` from 0 up to 0.25: at 512 B the paper's Fig. 14 shows different throughput for
//! 0.1 and 0.2 where its own equation sets the same limit. That is the paper's, and stays.

use super::settings::Settings;
use egeria_facts::Mix;

/// Where persistent memory's own buffer ends, bytes (§III-B2): requests of this size and more
/// fill it, smaller ones leave room for others.
pub const BUFFER_BYTES: f64 = 256.0;

/// What is forgiven before the floor of Eq. 1: decimal settings are rounded in binary, and a sum
/// that is 4 must not count as 3.
const ROUNDING: f64 = 1e-9;

/// `P_rw` (Eq. 2, §III-C), threads: writes hurt others sooner than reads. `write_share` is `W_r`,
/// the share of requests that write, 0 to 1.
pub fn pattern_term(write_share: f64) -> f64 {
    3.0 - write_share
}

/// `P_N` (Eq. 3, §III-C), threads: more DIMMs serve more at once. `dimms` is `N`, how many are
/// interleaved, from 1.
pub fn dimm_term(dimms: u32) -> f64 {
    f64::from(dimms) - 1.0
}

/// `P_size` (Eq. 4, §III-C), threads: requests smaller than the buffer block others for less
/// time. `mean_bytes` is `S`, the mean size of requests, above 0.
pub fn size_term(mean_bytes: f64) -> f64 {
    if mean_bytes >= BUFFER_BYTES {
        0.0
    } else {
        2.0 * BUFFER_BYTES / mean_bytes - 1.0
    }
}

/// `T_S` (Eq. 1, §III-C), threads: how many may access persistent memory at once.
///
/// `tolerated_loss` is `T_mc`, the share of the throughput of DRAM that may be lost, 0 to 1; the
/// others are as in Eqs. 2 to 4. The least for values in their ranges is 2. Values outside are
/// brought to the nearest end of their range, and what is no number to the cautious end.
pub fn serving_threads(tolerated_loss: f64, dimms: u32, mean_bytes: f64, write_share: f64) -> u32 {
    let tolerated_loss = within_one(tolerated_loss, 0.0);
    let write_share = within_one(write_share, 1.0);
    let threads = (1.0 + 2.0 * tolerated_loss) * pattern_term(write_share)
        + (1.0 + tolerated_loss) * dimm_term(dimms.max(1))
        + size_term(whole_bytes(mean_bytes));
    (threads + ROUNDING).floor() as u32
}

/// `T_mc` for which Eq. 1 gives this number of threads: the share of the throughput of DRAM that they cost, 0 to 1.
pub(crate) fn loss_at(threads: u32, dimms: u32, mix: &Mix) -> f64 {
    let pattern = pattern_term(within_one(mix.write_share, 1.0));
    let (dimms, size) = (
        dimm_term(dimms.max(1)),
        size_term(whole_bytes(mix.mean_bytes)),
    );
    let beyond = f64::from(threads) - pattern - dimms - size;
    (beyond / (2.0 * pattern + dimms)).clamp(0.0, 1.0)
}

/// `T_S` of what was asked for in a window, at most what the settings allow; `None` when nothing
/// was, for then Eq. 1 has no input.
pub fn limit_for(mix: &Mix, settings: &Settings) -> Option<u32> {
    if mix.requests == 0 {
        return None;
    }
    let threads = serving_threads(
        settings.tolerated_loss,
        settings.dimms,
        mix.mean_bytes,
        mix.write_share,
    );
    Some(threads.clamp(1, settings.max_threads.max(1)))
}

/// What Eq. 1 allows for large writes, the heaviest requests there are: a limit to begin with.
pub fn cautious_limit(settings: &Settings) -> u32 {
    let threads = serving_threads(settings.tolerated_loss, settings.dimms, BUFFER_BYTES, 1.0);
    threads.clamp(1, settings.max_threads.max(1))
}

fn within_one(share: f64, otherwise: f64) -> f64 {
    if share.is_nan() {
        otherwise
    } else {
        share.clamp(0.0, 1.0)
    }
}

/// No request is smaller than a byte.
fn whole_bytes(mean_bytes: f64) -> f64 {
    if mean_bytes.is_nan() {
        BUFFER_BYTES
    } else {
        mean_bytes.max(1.0)
    }
}
