//! `egeria-torture fuzz` as people and scripts use it.

mod common;

use common::{interrupted, refuses_no_case, reported, run};

#[test]
fn the_json_has_exactly_the_documented_fields() {
    let (report, fields) = reported(&["fuzz", "--target", "image", "--runs", "200"]);
    assert_eq!(fields, ["details", "findings", "runs", "seconds"]);
    assert_eq!(report["runs"], 200);
    assert_eq!(report["findings"], 0);
    assert_eq!(report["details"]["by_target"][0]["target"], "image");
}

#[test]
fn what_is_no_case_and_no_target_is_one_clear_line() {
    refuses_no_case("fuzz");
    run(["fuzz", "--target", "everything"]).refused(2, &["everything", "image"]);
}

#[test]
fn an_interrupted_run_tells_what_it_did() {
    let report = interrupted("fuzz");
    assert_eq!(report["findings"], 0);
}
