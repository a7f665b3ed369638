//! `egeria-lab bench pats`, `odin` and `relocation`: real fio on emulated machines, the fewest points of one round each. That they
//! run and fill their rows; figures of so short a time say nothing.

mod common;

use egeria_harness::testing::skip;
use std::path::Path;

use common::{finish, lab};
use egeria_harness::testing::{can_mount, preload_library};
use serde_json::Value;

/// The document of a bench, each point measured for so many ms; `None`, loudly, without what it needs.
fn bench(arguments: &[&str], measured: &str) -> Option<Value> {
    if !Path::new("/usr/bin/fio").exists() {
        skip("fio is missing; apt-get install fio");
        return None;
    }
    if !can_mount() {
        return None;
    }
    let mut command = lab(["bench"]);
    command
        .args(arguments)
        .args(["--rounds", "1", "--measured", measured, "--json"])
        .env("EGERIA_PRELOAD_LIB", preload_library());
    Some(finish(command).ok().json())
}

/// Its rows, in which threads moved bytes.
#[track_caller]
fn rows<'d>(document: &'d Value, bytes: &str) -> &'d [Value] {
    let rows = document["rows"].as_array().unwrap();
    assert!(!rows.is_empty(), "{document}");
    for row in rows {
        // Figures of DRAM alone have no threads on persistent memory.
        assert!(
            row[bytes].as_f64() > Some(0.0) || row["threads"] == 0,
            "{row}"
        );
    }
    assert_eq!(document["emulated"], true);
    rows
}

#[test]
fn a_figure_of_pats_is_measured() {
    let Some(document) = bench(&["pats", "--figure", "3"], "200") else {
        return;
    };
    let of_figure = |row: &&Value| row["figure"] == "3" && row["threads"] != 0;
    assert!(
        rows(&document, "pm_bytes_s")
            .iter()
            .any(|row| of_figure(&row)),
        "{document}"
    );
}

#[test]
fn odin_is_measured_on_one_node() {
    let Some(document) = bench(&["odin", "--nodes", "1"], "200") else {
        return;
    };
    for row in rows(&document, "bytes_s") {
        assert_eq!(row["nodes"], 1, "{row}");
    }
}

#[test]
fn relocation_is_measured_under_each_policy() {
    // While files move, a moment may pass without a read.
    let Some(document) = bench(&["relocation"], "1000") else {
        return;
    };
    let policies: Vec<_> = rows(&document, "bytes_s")
        .iter()
        .map(|row| row["policy"].as_str().unwrap())
        .collect();
    assert_eq!(policies, ["off", "full", "all"]);
}
