//! `egeria-torture fuzz` as people and scripts use it.

mod common;

use common::{finish, interrupted, run, torture};

#[test]
fn the_json_has_exactly_the_documented_fields() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("cases");
    let mut command = torture([
        "fuzz", "--target", "image", "--runs", "200", "--json", "--out",
    ]);
    command.arg(&out);
    let report = finish(command).ok().json();
    let mut fields: Vec<&str> = report
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    fields.sort_unstable();
    assert_eq!(fields, ["details", "findings", "runs", "seconds"]);
    assert_eq!(report["runs"], 200);
    assert_eq!(report["findings"], 0);
    assert_eq!(report["details"]["by_target"][0]["target"], "image");
    assert!(!out.exists(), "nothing was found, so nothing is saved");
}

#[test]
fn what_is_no_case_and_no_target_is_one_clear_line() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("case");
    std::fs::write(&file, "no case").unwrap();
    let ended = run(["fuzz".as_ref(), "--replay".as_ref(), file.as_os_str()]);
    ended.refused(1, &["is no fuzz case"]);
    run(["fuzz", "--target", "everything"]).refused(2, &["everything", "image"]);
}

#[test]
fn an_interrupted_run_tells_what_it_did() {
    let report = interrupted("fuzz");
    assert_eq!(report["findings"], 0);
}
