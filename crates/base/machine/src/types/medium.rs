//! How long an access to a medium takes: the arithmetic that emulated nodes and memories share. The model is
//! described in [`crate::types::emulated`].

use serde::de::Error;
use serde::{Deserialize, Deserializer};

use crate::types::access::AccessKind;

const NS_PER_S: f64 = 1e9;

/// A medium: what stands behind one service clock.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Medium<'a> {
    /// What it gives to readers.
    pub read: Side<'a>,
    /// What it gives to writers.
    pub write: Side<'a>,
    /// What is left of it while reads and writes meet: (share of the bytes that are written, factor), ascending.
    pub mix_curve: &'a [[f64; 2]],
    /// Left of it for accesses from other nodes: (share of the bytes that are written, factor), ascending.
    pub remote_mix_curve: &'a [[f64; 2]],
    /// Lines written for the coherence directory per line that is read from another node while its own node reads too.
    pub directory_write_share: f64,
}

/// One kind of access to a medium.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Side<'a> {
    /// All threads together, bytes/s.
    pub bytes_s: f64,
    /// A single thread at most, bytes/s.
    pub stream_bytes_s: f64,
    /// Time to the first byte, ns.
    pub latency_ns: f64,
    /// An undisturbed access from another node takes this many times as long, >= 1.
    pub remote_latency_factor: f64,
    /// Share of the bandwidth left for accesses from other nodes.
    pub remote_bandwidth_factor: f64,
    /// Share of `bytes_s` left with that number of threads at once, ascending; never falls when empty.
    pub curve: &'a [(u32, f64)],
}

impl<'a> Medium<'a> {
    /// What it gives to one kind of access.
    pub fn side(&self, kind: AccessKind) -> &Side<'a> {
        match kind {
            AccessKind::Read => &self.read,
            AccessKind::Write => &self.write,
        }
    }

    /// Bandwidth while `threads` access it at once, bytes/s.
    pub fn capacity_bytes_s(&self, kind: AccessKind, remote: bool, threads: u32) -> f64 {
        let side = self.side(kind);
        let factor = if remote {
            side.remote_bandwidth_factor
        } else {
            1.0
        };
        side.bytes_s * curve_factor(side.curve, threads) * factor
    }

    /// Time for which an access occupies the medium, ns.
    pub fn service_ns(&self, bytes: u64, kind: AccessKind, remote: bool, threads: u32) -> f64 {
        bytes as f64 / self.capacity_bytes_s(kind, remote, threads) * NS_PER_S
    }

    /// Factor by which serving takes longer if this share of the bytes is written, with `threads` threads.
    pub fn mixed(&self, remote: bool, written_share: f64, threads: f64) -> f64 {
        let curve = if remote {
            self.remote_mix_curve
        } else {
            self.mix_curve
        };
        if curve.is_empty() {
            return 1.0;
        }
        let point = |index: usize| match index.checked_sub(1) {
            None => [0.0, 1.0],
            Some(index) => curve.get(index).copied().unwrap_or([1.0, 1.0]),
        };
        // Without a list: the emulation asks in a program's own calls, where nothing may be allocated.
        let pairs = (0..=curve.len()).map(|index| [point(index), point(index + 1)]);
        let between = pairs.into_iter().find(|pair| written_share <= pair[1][0]);
        let left = between.map_or(1.0, |pair| {
            let part = (written_share - pair[0][0]) / (pair[1][0] - pair[0][0]).max(1e-9);
            pair[0][1] + (pair[1][1] - pair[0][1]) * part.clamp(0.0, 1.0)
        });
        1.0 + (1.0 / left - 1.0) * ((threads - 1.0) / (MIXING_THREADS - 1.0)).clamp(0.0, 1.0)
    }

    /// Time of an access without contention, ns.
    pub fn undisturbed_ns(&self, bytes: u64, kind: AccessKind, remote: bool, threads: u32) -> f64 {
        let side = self.side(kind);
        let capacity_bytes_s = self.capacity_bytes_s(kind, false, threads);
        let bytes_s = side.stream_bytes_s.min(capacity_bytes_s);
        let alone_ns = side.latency_ns + bytes as f64 / bytes_s * NS_PER_S;
        if !remote {
            return alone_ns;
        }
        let service_ns = self.service_ns(bytes, kind, true, threads);
        (alone_ns * side.remote_latency_factor).max(service_ns)
    }
}

/// With this number of threads reads and writes hinder each other as mix curves say; with one, not at all
/// (OptaneStudy, 17-numa, has one and four).
const MIXING_THREADS: f64 = 4.0;

/// The factor of a curve at a number of threads; 1 when the curve is empty.
fn curve_factor(curve: &[(u32, f64)], threads: u32) -> f64 {
    let above = curve.partition_point(|&(at, _)| at <= threads);
    match (
        above.checked_sub(1).and_then(|index| curve.get(index)),
        curve.get(above),
    ) {
        (None, None) => 1.0,
        (None, Some(&(_, first))) => first,
        (Some(&(_, last)), None) => last,
        (Some(&(from, low)), Some(&(to, high))) => {
            let share = f64::from(threads - from) / f64::from(to - from);
            low + (high - low) * share
        }
    }
}

pub(crate) fn is_zero<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Points of exactly two numbers; a plain tuple would let a third pass unnoticed.
pub(crate) fn points<'de, D>(deserializer: D) -> Result<Vec<(u32, f64)>, D::Error>
where
    D: Deserializer<'de>,
{
    let points = Vec::<Vec<f64>>::deserialize(deserializer)?;
    let point = |numbers: Vec<f64>| match numbers[..] {
        [threads, factor] if threads.fract() == 0.0 && threads.abs() <= f64::from(u32::MAX) => {
            Ok((threads.max(0.0) as u32, factor))
        }
        _ => Err(D::Error::custom(
            "a curve's points are [threads, factor], threads whole",
        )),
    };
    points.into_iter().map(point).collect()
}
