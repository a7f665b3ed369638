//! `egeria doctor` on the machine that is here.

use crate::common;

use common::{as_nobody, egeria, finish, is_root, run};

#[test]
fn every_ability_has_a_state_and_what_fails_has_a_fix() {
    let ended = finish(egeria(["doctor", "--json"]));
    let document = ended.json();
    let abilities = document["abilities"].as_array().unwrap();
    assert!(abilities.len() >= 8);
    for ability in abilities {
        let state = ability["state"].as_str().unwrap();
        assert!(
            ["works", "limited", "fails", "absent"].contains(&state),
            "{ability}"
        );
        let needs_fix = matches!(state, "limited" | "fails");
        assert!(!needs_fix || ability["fix"].is_string(), "{ability}");
        assert_ne!(ability["because"], "");
    }
    let fails = abilities.iter().any(|ability| ability["state"] == "fails");
    assert_eq!(document["works"], !fails);
    assert_eq!(ended.status, i32::from(fails));
    let names: Vec<&str> = document["facts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|fact| fact["name"].as_str().unwrap())
        .collect();
    for name in [
        "kernel",
        "nodes",
        "capabilities",
        "kernel.numa_balancing",
        "BTF",
        "container",
    ] {
        assert!(names.contains(&name), "{names:?}");
    }
}

#[test]
fn it_tells_what_works_for_who_starts_it() {
    if !is_root() {
        return;
    }
    let text = finish(as_nobody(["doctor"])).stdout;
    let line = text
        .lines()
        .find(|line| line.contains("memory of processes"))
        .unwrap();
    assert!(line.contains("only processes of this user"), "{text}");
    assert!(
        !run(["doctor", "--json"])
            .stdout
            .contains("only processes of this user")
    );
}

#[test]
fn its_lines_fit_on_a_page() {
    let text = finish(egeria(["doctor"])).stdout;
    for line in text.lines() {
        assert!(line.chars().count() <= 100, "{line}");
    }
}
