//! `egeria-lab bench overhead`: what a steward costs the programs that it observes.

mod common;

use common::{finish, lab, run};
use egeria_harness::testing::{is_root, memory};
use serde_json::Value;

#[test]
fn what_looking_costs_is_measured_for_each_source() {
    if !is_root() {
        return;
    }
    let place = memory();
    let mut bench = lab([
        "bench",
        "overhead",
        "--json",
        "--rounds",
        "1",
        "--measure",
        "60",
    ]);
    bench
        .args([
            "--window",
            "20",
            "--size",
            "1MiB",
            "--threads",
            "30",
            "--directory",
        ])
        .arg(place.path())
        .env("EGERIA_RUNTIME_DIR", place.path().join("runtime"));
    let ended = finish(bench).ok();
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 13, "{report:#}");
    let mut measured = 0;
    for row in rows {
        if row["missing"].is_string() {
            assert!(
                row["holds"].is_null() && row["overhead"].is_null(),
                "{row:#}"
            );
            continue;
        }
        measured += 1;
        assert!(row["core_share"].as_f64() > Some(0.0), "{row:#}");
        let decides = match row["subject"].as_str() {
            Some("threads") => &row["core_share"],
            _ => {
                assert!(row["off_ops_s"].as_f64() > Some(0.0), "{row:#}");
                &row["overhead"]
            }
        };
        assert_eq!(
            row["holds"],
            decides.as_f64() <= row["max"].as_f64(),
            "{row:#}"
        );
    }
    assert!(measured >= 1, "threads at least: {report:#}");
    // Nothing is left behind.
    let left = std::fs::read_dir(place.path()).unwrap().flatten();
    let left: Vec<_> = left.map(|entry| entry.file_name()).collect();
    assert!(left.iter().all(|name| name == "runtime"), "{left:?}");
    run(["bench", "overhead", "--subject", "nothing"]).refused(1, &["no subject"]);
}

#[test]
fn each_way_has_its_sharpness_or_a_reason() {
    if !is_root() {
        return;
    }
    let place = memory();
    let mut bench = lab(["bench", "sharpness", "--json", "--windows", "4"]);
    bench
        .args(["--window", "100", "--size", "16MiB", "--piece", "1MiB"])
        .env("EGERIA_RUNTIME_DIR", place.path().join("runtime"));
    let ended = finish(bench).ok();
    let report: Value = serde_json::from_str(&ended.stdout).unwrap();
    let rows = report["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 4, "{report:#}");
    for row in rows {
        if row["missing"].is_string() {
            assert!(row["used_found"].is_null(), "{row:#}");
            continue;
        }
        assert!(row["looking_ms"].as_f64() > Some(0.0), "{row:#}");
        let (used, apart) = (row["used_found"].as_f64(), row["layout"] == "apart");
        if row["source"] == "page-tables" {
            // A mapping is the smallest part that page tables tell from others.
            assert_eq!(used > Some(0.9), apart, "{row:#}");
        }
    }
    let left = std::fs::read_dir(place.path().join("runtime")).unwrap();
    assert_eq!(left.count(), 0, "the journal is gone");
    run(["bench", "sharpness", "--subject", "nothing"]).refused(1, &["no subject"]);
    run(["bench", "sharpness", "--piece", "1KiB"]).refused(2, &["at least 4 KiB"]);
}
