//! Prints how far emulated bandwidth and latency are from what a profile says.
//!
//! `cargo run --release -p egeria-media --example emulation_self_test [PROFILE|FILE]`

use egeria_machine::Machine;
use egeria_media::emulation::{SelfTest, self_test, sharing_test};

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
    Ok(())
}
