//! What no single value may be.

use crate::MachineError;
use crate::types::emulated::MAX_CURVE_POINTS;

/// Larger sizes are nonsense (and TOML integers are signed).
pub(crate) const MAX_BYTES: u64 = 1 << 60;
const MAX_BYTES_S: f64 = 1e15;
const MAX_LATENCY_NS: f64 = 1e9;
pub(crate) const MAX_REMOTE_FACTOR: f64 = 1000.0;
pub(crate) const MAX_DIMMS: u32 = 64;
const MAX_CURVE_THREADS: u32 = 65_536;
const MAX_NAME_CHARS: usize = 64;
/// A key, what is wrong with its value, and what to do.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) key: String,
    pub(crate) problem: String,
    pub(crate) hint: String,
}

impl Fault {
    /// As an error about a file.
    pub(crate) fn of(self, origin: &std::path::Path) -> MachineError {
        MachineError::Value {
            origin: origin.to_owned(),
            key: self.key,
            problem: self.problem,
            hint: self.hint,
        }
    }
}

pub(crate) fn fault(
    key: impl Into<String>,
    problem: impl Into<String>,
    hint: impl Into<String>,
) -> Fault {
    Fault {
        key: key.into(),
        problem: problem.into(),
        hint: hint.into(),
    }
}

pub(crate) fn curve(key: &str, curve: &[(u32, f64)]) -> Result<(), Fault> {
    if curve.is_empty() {
        return Err(fault(
            key,
            "empty",
            "write [[1, 1.0]] for a bandwidth that never falls",
        ));
    }
    if curve.len() > MAX_CURVE_POINTS {
        let problem = format!("{} points", curve.len());
        return Err(fault(
            key,
            problem,
            format!("have at most {MAX_CURVE_POINTS}"),
        ));
    }
    let mut before = 0;
    for (index, &(threads, factor)) in curve.iter().enumerate() {
        let point = format!("{key}[{index}]");
        count(point.clone(), threads, MAX_CURVE_THREADS)?;
        share(point.clone(), factor)?;
        if threads <= before {
            let problem = format!("{threads} threads after {before}");
            return Err(fault(
                point,
                problem,
                "list the points by ascending threads",
            ));
        }
        before = threads;
    }
    Ok(())
}

pub(crate) fn name(key: &str, name: &str) -> Result<(), Fault> {
    let length = name.chars().count();
    if length == 0 || length > MAX_NAME_CHARS || name.chars().any(char::is_control) {
        let hint = format!("use 1 to {MAX_NAME_CHARS} printable characters");
        return Err(fault(key, "not a name", hint));
    }
    Ok(())
}

pub(crate) fn size(key: String, bytes: u64) -> Result<(), Fault> {
    if bytes > MAX_BYTES {
        return Err(fault(
            key,
            format!("{bytes} bytes"),
            format!("have at most {MAX_BYTES}"),
        ));
    }
    Ok(())
}

pub(crate) fn count(key: String, value: u32, most: u32) -> Result<(), Fault> {
    if !(1..=most).contains(&value) {
        return Err(fault(key, format!("{value}"), format!("use 1 to {most}")));
    }
    Ok(())
}

pub(crate) fn bandwidth(key: String, bytes_s: f64) -> Result<(), Fault> {
    number(
        key,
        bytes_s,
        1.0..=MAX_BYTES_S,
        "bytes per second, 1 to 1e15",
    )
}

pub(crate) fn latency(key: String, latency_ns: f64) -> Result<(), Fault> {
    number(
        key,
        latency_ns,
        0.0..=MAX_LATENCY_NS,
        "nanoseconds, 0 to 1e9",
    )
}

pub(crate) fn share(key: String, share: f64) -> Result<(), Fault> {
    number(key, share, 1e-6..=1.0, "a share from 0.000001 to 1")
}

/// NaN is in no range.
pub(crate) fn number(
    key: String,
    value: f64,
    range: std::ops::RangeInclusive<f64>,
    wanted: &str,
) -> Result<(), Fault> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(fault(key, format!("{value}"), format!("use {wanted}")))
}
