//! AsymSched's settings by name.

use crate::common::settings::{checks_of, fields_of};

use egeria_policy::asymsched::Settings;

checks_of!(Settings);

#[test]
fn defaults_are_the_papers() {
    let settings = Settings::default();
    assert_eq!(
        (settings.filter, settings.budget, settings.old_share),
        (0.9, 0.05, 0.9)
    );
    assert_eq!(
        (settings.cost_s_per_gb, settings.full_after_ms),
        (0.3, 2000)
    );
    assert_eq!(settings.chunk_pages, 30_000);
    assert!(settings.threads && settings.dynamic_memory && settings.full_memory);
}

#[test]
fn every_field_has_a_name_and_takes_the_value_it_has() {
    let json = serde_json::to_value(Settings::default()).expect("plain data");
    assert_names_are(fields_of(&json));
    let odd = Settings {
        threads: false,
        filter: 0.75,
        max_placements: 9,
        ..Settings::default()
    };
    let mut copy = Settings::default();
    for (name, value) in odd.values() {
        copy.set(name, &value).expect("its own value");
    }
    assert_eq!(copy, odd);
}

#[test]
fn a_value_out_of_range_states_the_range_and_changes_nothing() {
    assert_range_is_stated(&[
        ("threads", "yes"),
        ("filter", "1.1"),
        ("filter", "NaN"),
        ("budget", "-0.1"),
        ("cost_s_per_gb", "inf"),
        ("cost_s_per_gb", "1001"),
        ("full_after_ms", "1.5"),
        ("chunk_pages", "0"),
        ("max_placements", "0"),
        ("sharing_accesses_s", "-1"),
    ]);
    assert_unknown_name_lists("filters", "filter");
}

#[test]
fn settings_from_outside_are_checked() {
    let read = |text: &str| serde_json::from_str::<Settings>(text);
    let partial = read(r#"{"budget": 0.03}"#).expect("the rest are defaults");
    assert_eq!(partial.validate(), Ok(()));
    assert!(
        read(r#"{"budget": 3.0}"#)
            .expect("only a number")
            .validate()
            .is_err()
    );
    assert!(
        read(r#"{"budgets": 0.03}"#).is_err(),
        "unknown keys are refused"
    );
}
