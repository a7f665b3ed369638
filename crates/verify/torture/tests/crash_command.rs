//! `egeria-torture crash` as people and scripts use it.

mod common;

use common::{interrupted, refuses_no_case, reported};

#[test]
fn the_json_has_exactly_the_documented_fields() {
    let (report, fields) = reported(&["crash", "--quick", "--states", "300"]);
    let expected = [
        "details",
        "seconds",
        "states",
        "unique_images",
        "violations",
        "workloads",
    ];
    assert_eq!(fields, expected);
    assert!(report["states"].as_u64().unwrap() >= 300);
    assert_eq!(report["violations"], 0);
}

#[test]
fn a_file_that_is_no_case_is_one_clear_line() {
    refuses_no_case("crash");
}

#[test]
fn an_interrupted_exploration_tells_what_it_did() {
    let report = interrupted("crash");
    assert_eq!(report["violations"], 0);
}
