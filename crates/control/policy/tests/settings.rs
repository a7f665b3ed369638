//! Settings by name.

use crate::common::settings::{checks_of, fields_of};

use egeria_policy::nthread::{Configuration, Settings};
use egeria_policy::planner::System;

checks_of!(Settings);

#[test]
fn defaults_are_the_papers() {
    let settings = Settings::default();
    assert_eq!(settings.read_margin_bytes_s, 200e6);
    assert_eq!(settings.read_weight, 1.0 / 3.0);
    assert_eq!((settings.pm_limit, settings.pm_ratio), (0.8, 2.0));
    assert_eq!((settings.cpu_limit, settings.cpu_ratio), (0.9, 2.0));
    assert_eq!(Settings::WINDOW_NS, 1_000_000_000);
}

#[test]
fn every_setting_takes_the_value_it_has() {
    let mut settings = Settings::of(Configuration::Nm);
    settings.set_pair("dimms=6").expect("in range");
    settings
        .set_pair("dimm_write_bytes_s = 1.85e9")
        .expect("in range");
    let mut copy = Settings::of(Configuration::Off);
    for (name, value) in settings.values() {
        copy.set(name, &value).expect("its own value");
    }
    assert_eq!(copy, settings);
}

#[test]
fn every_field_has_a_name() {
    let json = serde_json::to_value(Settings::default()).expect("plain data");
    let mut known = [fields_of(&json), fields_of(&json["stages"])].concat();
    known.retain(|&name| name != "stages");
    assert_names_are(known);
}

#[test]
fn an_unknown_name_lists_the_names() {
    assert_unknown_name_lists("cpu_limits", "cpu_limit");
}

#[test]
fn a_value_out_of_range_states_the_range() {
    assert_range_is_stated(&[
        ("cpu_limit", "0"),
        ("cpu_limit", "-1"),
        ("cpu_limit", "1001"),
        ("pm_ratio", "0.5"),
        ("read_weight", "1.1"),
        ("read_margin_bytes_s", "NaN"),
        ("read_margin_bytes_s", "inf"),
        ("min_io_bytes_s", ""),
        ("dimms", "0"),
        ("dimms", "65"),
        ("dimms", "1.5"),
        ("sharing", "yes"),
    ]);
    assert!(Settings::default().set_pair("cpu_limit").is_err());
}

#[test]
fn settings_from_outside_are_checked() {
    let read = |text: &str| serde_json::from_str::<Settings>(text);
    let partial = read(r#"{"cpu_limit": 1.3}"#).expect("the rest are defaults");
    assert_eq!(partial.validate(), Ok(()));
    let nonsense = read(r#"{"cpu_limit": -1.0}"#).expect("only a number");
    assert!(nonsense.validate().is_err());
    assert!(
        read(r#"{"cpu_limits": 1.0}"#).is_err(),
        "unknown keys are refused"
    );
}

#[test]
fn configurations_have_names() {
    for configuration in Configuration::ALL {
        assert_eq!(configuration.to_string().parse(), Ok(configuration));
    }
    let error = "all"
        .parse::<Configuration>()
        .expect_err("no such")
        .to_string();
    assert!(error.contains("off, rl, cpu, nm or full"), "{error}");
}

#[test]
fn the_page_of_settings_lists_the_registry() {
    let page = include_str!("../../../../docs/reference/settings.md");
    let (_, table) = page
        .split_once("| policy | ")
        .expect("the table of policies");
    let rows: Vec<&str> = (table.lines().skip(2))
        .take_while(|line| line.starts_with('|'))
        .collect();
    let cell = |text: &str| match text {
        "" => String::new(),
        _ => format!(" {text}"),
    };
    let row = |system: System| {
        let (name, summary) = (system.name(), system.summary());
        format!("| `{name}` | {summary} |{} |", cell(system.source()))
    };
    assert_eq!(rows, System::ALL.map(row));
}

#[test]
fn a_policy_is_found_by_its_name() {
    for system in System::ALL {
        assert_eq!(system.name().parse(), Ok(system));
        let json = serde_json::to_value(system).expect("a name");
        assert_eq!(json, system.name());
        assert_eq!(system.settings().validate(), Ok(()));
    }
}

/// Emulated CPUs are slow, so the guest's stewards get other settings than users do.
#[test]
fn what_the_guest_relaxes_is_in_the_table_and_nothing_else() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../");
    let read = |path: &str| std::fs::read_to_string(format!("{root}{path}")).unwrap();
    let defaults = System::All.settings().values();
    let mut rows = Vec::new();
    for part in ["inside", "pages", "steward", "programs", "short"] {
        let script = read(&format!("scripts/guest-{part}"));
        for pair in script.split("--set ").skip(1) {
            let pair = pair.split([' ', '"', '\n']).next().unwrap();
            let (name, value) = pair.split_once('=').unwrap();
            let is_same =
                |known: &&(String, String)| known.0.trim_start_matches("nthread.") == name;
            let default = &defaults.iter().find(is_same).unwrap().1;
            rows.push(format!("| `{name}` | {default} | {value} |"));
        }
    }
    let page = read("docs/explanation/testing.md");
    let (_, table) = page.split_once("## What the guest relaxes").unwrap();
    let is_known = |line: &&str| rows.iter().any(|row| line.starts_with(row));
    rows.iter()
        .for_each(|row| assert!(table.contains(row), "missing: {row}"));
    let lines = table.lines().filter(|line| line.starts_with("| `"));
    let unknown: Vec<&str> = lines.filter(|line| !is_known(line)).collect();
    assert_eq!(unknown, [""; 0], "not in the scripts");
}
