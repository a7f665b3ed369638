//! The page of `egeria sim`: well-formed, and with everything of every system.

use egeria_harness::testing::html::unclosed;
use egeria_machine::Machine;
use egeria_policy::planner::System;
use egeria_report::what_if::{Prediction, WhatIf, what_if};
use egeria_sim::{Options, Outcome, Range, Workload};

fn prediction<'a>(
    name: &'a str,
    outcome: &'a Outcome,
    gain: f64,
    is_decided: bool,
) -> Prediction<'a> {
    let around = |value: f64| Range {
        low: value / 2.0,
        high: value * 2.0,
    };
    Prediction {
        name,
        outcome,
        bytes_s_range: around(outcome.bytes_s),
        vs_first: gain,
        vs_first_range: around(gain),
        is_decided,
    }
}

#[test]
fn what_if_page_shows_every_system() {
    let workload = Workload::from_toml(FIO, "fio.toml").unwrap();
    let machine = Machine::profile("optane-2s").unwrap();
    let run = |system| egeria_sim::run(&machine, &workload, &Options::of(system)).unwrap();
    let (off, rl) = (run(System::Off), run(System::Rl));
    assert!(rl.moves > 0);
    let page = what_if(&WhatIf {
        machine: &machine.name,
        workload: &workload,
        allocation: "local",
        systems: &[
            prediction("off", &off, 1.0, true),
            prediction("rl", &rl, 1.2, false),
        ],
    });
    assert_eq!(unclosed(&page), Ok(Vec::new()));
    assert!(page.contains("Predicted by a model") && page.contains("&lt;fio&gt;"));
    assert!(!page.contains("<fio>") && !page.contains("NaN"));
    for id in [
        "compared",
        "off-nodes",
        "off-threads",
        "rl-nodes",
        "rl-threads",
    ] {
        assert!(page.contains(&format!("<figure id=\"{id}\">")), "{id}");
    }
    assert!(page.contains("0.60x to 2.40x") && page.contains("not decided"));
    assert_eq!(
        page.matches("<path class=\"range\"").count(),
        2,
        "one whisker"
    );
    assert!(page.contains("Nothing was decided") && page.contains("from node 1 to node 0"));
}

#[test]
fn a_what_if_draws_links_where_there_are_some() {
    let workload = Workload::from_toml(FAR, "far.toml").unwrap();
    let machine = Machine::profile("bulldozer-8n").unwrap();
    let off = egeria_sim::run(&machine, &workload, &Options::of(System::Off)).unwrap();
    let page = what_if(&WhatIf {
        machine: &machine.name,
        workload: &workload,
        allocation: "local",
        systems: &[prediction("off", &off, 1.0, true)],
    });
    assert!(page.contains("<figure id=\"off-links\">") && page.contains("0 to 1"));
}

const FIO: &str = "name = \"<fio>\"\nseconds = 6.0\n[[files]]\nname = \"private\"\ncount = 4\nbytes = 4000000000\nnode = 0\n\
                   [[threads]]\nname = \"fio\"\ncount = 4\nfiles = \"private\"\n[[threads.phases]]\nread_share = 0.8\n\
                   request_bytes = 4096\nthink_ns = 1000.0\n";
const FAR: &str = "name = \"far\"\nseconds = 2.0\n[[files]]\nname = \"data\"\nbytes = 1000000000\nnode = 0\nmedium = \"memory\"\n\
                   [[threads]]\nname = \"reader\"\nfiles = \"data\"\nstart_node = 1\npinned = true\n[[threads.phases]]\n\
                   read_share = 1.0\nrequest_bytes = 4096\n";
