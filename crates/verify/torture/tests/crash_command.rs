//! `egeria-torture crash` as people and scripts use it.

mod common;

use common::{finish, interrupted, run, torture};

#[test]
fn the_json_has_exactly_the_documented_fields() {
    let directory = tempfile::tempdir().unwrap();
    let out = directory.path().join("cases");
    let mut command = torture(["crash", "--quick", "--states", "300", "--json", "--out"]);
    command.arg(&out);
    let report = finish(command).ok().json();
    let mut fields: Vec<&str> = report
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    fields.sort_unstable();
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
    assert!(!out.exists(), "nothing was found, so nothing is saved");
}

#[test]
fn a_file_that_is_no_case_is_one_clear_line() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("case");
    std::fs::write(&file, "no case").unwrap();
    let ended = run(["crash".as_ref(), "--replay".as_ref(), file.as_os_str()]);
    ended.refused(1, &["is no crash case"]);
}

#[test]
fn an_interrupted_exploration_tells_what_it_did() {
    let report = interrupted("crash");
    assert_eq!(report["violations"], 0);
}
