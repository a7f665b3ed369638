//! What no node's memories, controllers and cache may say.

use super::values::{
    Fault, MAX_DIMMS, MAX_REMOTE_FACTOR, bandwidth, count, curve, fault, latency, number, share,
    size,
};
use crate::types::emulated::MAX_CURVE_POINTS;
use crate::types::memory::{Hardware, LINE_BYTES, MAX_MEMORIES, Memory};
use crate::types::model::PoolBandwidth;

/// Larger queues are no queues.
const MAX_LINES: u32 = 1 << 20;
const MAX_GRANULARITY_BYTES: u64 = 1 << 20;
const MAX_CACHE_PARTS: u32 = 1024;
/// Reads and writes that do not share wires give twice as much as either.
const MAX_MIX_FACTOR: f64 = 2.0;

/// All of a node's.
pub(super) fn hardware(key: &str, hardware: &Hardware) -> Result<(), Fault> {
    if hardware.memories.len() > MAX_MEMORIES {
        let problem = format!("{} of them", hardware.memories.len());
        let hint = format!("have at most {MAX_MEMORIES}");
        return Err(fault(format!("{key}.memories"), problem, hint));
    }
    for (index, each) in hardware.memories.iter().enumerate() {
        memory(&format!("{key}.memories[{index}]"), each)?;
    }
    if let Some(cache) = &hardware.cache {
        size(format!("{key}.cache.bytes"), cache.bytes)?;
        latency(format!("{key}.cache.latency_ns"), cache.latency_ns)?;
        bandwidth(format!("{key}.cache.read_bytes_s"), cache.read_bytes_s)?;
        count(format!("{key}.cache.parts"), cache.parts, MAX_CACHE_PARTS)?;
    }
    controllers(key, hardware)?;
    let lines = hardware.socket_queue_lines.unwrap_or(1);
    count(format!("{key}.socket_queue_lines"), lines, MAX_LINES)
}

fn controllers(key: &str, hardware: &Hardware) -> Result<(), Fault> {
    for (index, each) in hardware.controllers.iter().enumerate() {
        let at = format!("{key}.controllers[{index}]");
        count(format!("{at}.queue_lines"), each.queue_lines, MAX_LINES)?;
        let earlier = &hardware.controllers[..index];
        if earlier.iter().any(|other| other.id == each.id) {
            let problem = format!("{} is used twice", each.id);
            let hint = "give every controller of a node its own id";
            return Err(fault(format!("{at}.id"), problem, hint));
        }
        let has = |memory: &Memory| memory.controller == each.id;
        if !hardware.memories.iter().any(has) {
            let problem = format!("no memory of the node has controller {}", each.id);
            let hint = "name it in a [[nodes.memories]] table, or remove it";
            return Err(fault(format!("{at}.id"), problem, hint));
        }
    }
    Ok(())
}

fn memory(key: &str, memory: &Memory) -> Result<(), Fault> {
    let at = |name: &str| format!("{key}.{name}");
    count(at("modules"), memory.modules, MAX_DIMMS)?;
    size(at("bytes"), memory.bytes)?;
    bandwidth(at("read_bytes_s"), memory.read_bytes_s)?;
    bandwidth(at("write_bytes_s"), memory.write_bytes_s)?;
    bandwidth(at("read_stream_bytes_s"), memory.read_stream_bytes_s)?;
    bandwidth(at("write_stream_bytes_s"), memory.write_stream_bytes_s)?;
    latency(at("read_latency_ns"), memory.read_latency_ns)?;
    latency(at("write_latency_ns"), memory.write_latency_ns)?;
    number(
        at("remote_latency_factor"),
        memory.remote_latency_factor,
        1.0..=MAX_REMOTE_FACTOR,
        &format!("a number from 1 to {MAX_REMOTE_FACTOR}"),
    )?;
    share(
        at("remote_read_bandwidth_factor"),
        memory.remote_read_bandwidth_factor,
    )?;
    share(
        at("remote_write_bandwidth_factor"),
        memory.remote_write_bandwidth_factor,
    )?;
    for (name, points) in [
        ("read_curve", &memory.read_curve),
        ("write_curve", &memory.write_curve),
    ] {
        if !points.is_empty() {
            curve(&at(name), points)?;
        }
    }
    granularity(&at("granularity_bytes"), memory.granularity_bytes)?;
    number(
        at("directory_write_share"),
        memory.directory_write_share,
        0.0..=1.0,
        "a share from 0 to 1",
    )?;
    refined(&at, memory)?;
    let reading = memory.read_lines_in_flight.unwrap_or(1);
    count(at("read_lines_in_flight"), reading, MAX_LINES)?;
    let writing = memory.write_lines_in_flight.unwrap_or(1);
    count(at("write_lines_in_flight"), writing, MAX_LINES)
}

/// What only measurements of the memory say.
fn refined(at: &dyn Fn(&str) -> String, memory: &Memory) -> Result<(), Fault> {
    let sequential_ns = memory.sequential_read_latency_ns.unwrap_or(0.0);
    latency(at("sequential_read_latency_ns"), sequential_ns)?;
    for (name, factor) in [
        (
            "remote_read_latency_factor",
            memory.remote_read_latency_factor,
        ),
        (
            "remote_write_latency_factor",
            memory.remote_write_latency_factor,
        ),
    ] {
        let wanted = format!("a number from 1 to {MAX_REMOTE_FACTOR}");
        let range = 1.0..=MAX_REMOTE_FACTOR;
        number(at(name), factor.unwrap_or(1.0), range, &wanted)?;
    }
    for (name, lines) in [
        ("read_lines_at_once", memory.read_lines_at_once),
        ("write_lines_at_once", memory.write_lines_at_once),
    ] {
        count(at(name), lines.unwrap_or(1), MAX_LINES)?;
    }
    if let Some(interleave) = &memory.interleave {
        granularity(&at("interleave.bytes"), interleave.bytes)?;
        size(
            at("interleave.read_ahead_bytes"),
            interleave.read_ahead_bytes,
        )?;
        size(
            at("interleave.write_ahead_bytes"),
            interleave.write_ahead_bytes,
        )?;

        let accesses = interleave.write_ahead_accesses;
        count(at("interleave.write_ahead_accesses"), accesses, MAX_LINES)?;
    }
    mix(&at("mix_curve"), &memory.mix_curve)?;
    mix(&at("remote_mix_curve"), &memory.remote_mix_curve)
}

fn mix(key: &str, curve: &[[f64; 2]]) -> Result<(), Fault> {
    let mut before = 0.0;
    for (index, [share, factor]) in curve.iter().enumerate() {
        let point = format!("{key}[{index}]");
        let ascends = *share > before && *share < 1.0;
        if !ascends || index >= MAX_CURVE_POINTS {
            let hint = format!(
                "list at most {MAX_CURVE_POINTS} points, by ascending shares between 0 and 1"
            );
            return Err(fault(point, format!("{share} after {before}"), hint));
        }
        let wanted = format!("a factor from 0.01 to {MAX_MIX_FACTOR}");
        number(point, *factor, 0.01..=MAX_MIX_FACTOR, &wanted)?;
        before = *share;
    }
    Ok(())
}

/// What was measured of a pool.
pub(crate) fn pool(key: &str, pool: &PoolBandwidth) -> Result<(), Fault> {
    let at = |name: &str| format!("{key}.{name}");
    let (read, write) = (pool.read_stream_bytes_s, pool.write_stream_bytes_s);
    for (name, bytes_s) in [
        ("read_bytes_s", Some(pool.read_bytes_s)),
        ("write_bytes_s", Some(pool.write_bytes_s)),
        ("read_stream_bytes_s", read),
        ("write_stream_bytes_s", write),
    ] {
        bytes_s.map_or(Ok(()), |bytes_s| bandwidth(at(name), bytes_s))?;
    }
    for (name, points) in [
        ("read_curve", &pool.read_curve),
        ("write_curve", &pool.write_curve),
    ] {
        if !points.is_empty() {
            curve(&at(name), points)?;
        }
    }
    mix(&at("mix_curve"), &pool.mix_curve)
}

fn granularity(key: &str, bytes: u64) -> Result<(), Fault> {
    let range = LINE_BYTES..=MAX_GRANULARITY_BYTES;
    if range.contains(&bytes) && bytes.is_power_of_two() {
        Ok(())
    } else {
        let hint = format!("use a power of two, {LINE_BYTES} to {MAX_GRANULARITY_BYTES}");
        Err(fault(key, format!("{bytes} bytes"), hint))
    }
}
