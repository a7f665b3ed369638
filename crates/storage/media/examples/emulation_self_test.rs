//! Prints how far emulated bandwidth and latency are from what a profile says, and how soon a
//! thread is on the node that its affinity says. An answer in rows beside the profile's, so no benchmark of criterion's.
//!
//! `cargo run --release -p egeria-media --example emulation_self_test [PROFILE|FILE]`

use rustix::thread::{CpuSet, sched_setaffinity};
use std::time::{Duration, Instant};

use egeria_machine::Machine;
use egeria_media::emulation::{EmulatedThread, Emulation, SelfTest, self_test, sharing_test};
use egeria_stats::statistics::median;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::args().nth(1).unwrap_or("optane-2s".to_owned());
    let machine = Machine::resolve(Some(&name), None)?;
    println!(
        "threads kind  node    bytes  expected ns  measured ns  expected MB/s  measured MB/s  off"
    );
    for row in self_test(&machine, &SelfTest::default())? {
        println!(
            "{:7} {:5} {:6} {:6}  {:11.0}  {:11.0}  {:13.0}  {:13.0}  {:+.1} %",
            row.threads,
            format!("{:?}", row.kind),
            if row.remote { "remote" } else { "local" },
            row.bytes,
            row.expected_ns,
            row.measured_ns,
            row.expected_bytes_s / 1e6,
            row.measured_bytes_s / 1e6,
            row.deviation() * 100.0,
        );
    }
    println!("two readers  expected ns  measured ns    off  together faster  measured    off");
    for row in sharing_test(&machine, &SelfTest::default())? {
        println!(
            "{:11}  {:11.0}  {:11.0}  {:+.1} %  {:13.1} %  {:6.1} %  {:+.1} %",
            format!("{:?}", row.readers),
            row.expected_ns,
            row.measured_ns,
            row.deviation() * 100.0,
            (row.expected_gain - 1.0) * 100.0,
            (row.measured_gain - 1.0) * 100.0,
            row.gain_deviation() * 100.0,
        );
    }
    if let Some((median_ms, max_ms)) = moving_ms(&machine) {
        println!("affinity takes effect after {median_ms:.1} ms, at most {max_ms:.1} ms (host)");
    }
    Ok(())
}

/// Host time from a changed affinity to being on the other node, ms: median and most of 101;
/// `None` where nodes share their CPUs.
fn moving_ms(machine: &Machine) -> Option<(f64, f64)> {
    let first_cpu = |node: usize| Some(usize::from(machine.nodes.get(node)?.cpus.first()?.0));
    let cpus = [first_cpu(0)?, first_cpu(1)?];
    if cpus[0] == cpus[1] {
        return None;
    }
    let state = Emulation::private(machine).ok()?;
    let thread = EmulatedThread::default();
    let delays_ms: Vec<f64> = (0..101)
        .map(|turn| {
            pin_to(cpus[turn % 2]);
            let began = Instant::now();
            while state.node_of_thread(&thread) != turn % 2 {
                std::thread::sleep(Duration::from_micros(100));
            }
            began.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    let max_ms = delays_ms.iter().copied().fold(0.0, f64::max);
    Some((median(&delays_ms)?, max_ms))
}

fn pin_to(cpu: usize) {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).expect("a CPU that is allowed");
}
