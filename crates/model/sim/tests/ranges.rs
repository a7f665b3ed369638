//! Predictions lie in their own ranges, on every profile and for every workload that ships as an example.

use egeria_machine::Machine;
use egeria_policy::planner::System;
use egeria_sim::{Options, Uncertainty, Workload};

const EXAMPLES: [(&str, &str); 4] = [
    ("fio-4-rw80", include_str!("../workloads/fio-4-rw80.toml")),
    ("fio-8-rw60", include_str!("../workloads/fio-8-rw60.toml")),
    (
        "remote-writers",
        include_str!("../../../../docs/how-to/remote-writers.toml"),
    ),
    (
        "cache-and-log",
        include_str!("../../../../docs/how-to/cache-and-log.toml"),
    ),
];

/// An example, of a few windows.
fn example(name: &str, text: &str) -> Workload {
    let mut workload = Workload::from_toml(text, name).unwrap();
    (workload.seconds, workload.warm_up_seconds) = (3.0, 1.0);
    workload
}

#[test]
fn predictions_lie_in_their_ranges() {
    let mut count = 0;
    for profile in Machine::profile_names() {
        let machine = Machine::profile(profile).unwrap();
        for (name, text) in EXAMPLES {
            let workload = example(name, text);
            for system in [System::Off, System::All] {
                // Some examples name nodes that a machine does not have.
                let Ok(outcome) = egeria_sim::run(&machine, &workload, &Options::of(system)) else {
                    continue;
                };
                count += 1;
                let range = Uncertainty::of_speed(&outcome).around(outcome.bytes_s);
                assert!(range.has(outcome.bytes_s), "{profile}, {name}: {range:?}");
                let gain = Uncertainty::of_gain(system, System::Off).around(1.5);
                assert!(gain.has(1.5), "{system}: {gain:?}");
            }
        }
    }
    assert!(count > 80, "{count}");
}
