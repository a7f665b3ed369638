//! The settings of PATS by name.

use crate::common::settings::{checks_of, fields_of};

use egeria_admission::Request;
use egeria_machine::AccessKind;
use egeria_policy::pats::{Controller, Settings};

checks_of!(Settings);

#[test]
fn defaults_are_the_papers() {
    let settings = Settings::default();
    assert_eq!(settings.controller, Controller::Formula);
    assert_eq!((settings.tolerated_loss, settings.dimms), (0.2, 1));
    assert_eq!(settings.bypass_bytes, 256);
    assert_eq!(settings.validate(), Ok(()));
}

#[test]
fn every_setting_takes_the_value_it_has() {
    let mut settings = Settings::default();
    for pair in [
        "controller=learned",
        "tolerated_loss = 0.3",
        "dimms=6",
        "bypass_bytes=512",
        "paper_bypass=on",
        "max_threads=4096",
        "min_gain=0.05",
        "probe_windows=100",
    ] {
        settings.set_pair(pair).expect("in range");
    }
    let mut copy = Settings::default();
    for (name, value) in settings.values() {
        copy.set(name, &value).expect("its own value");
    }
    assert_eq!(copy, settings);
    let json = serde_json::to_string(&settings).expect("plain data");
    assert_eq!(serde_json::from_str::<Settings>(&json).ok(), Some(copy));
}

#[test]
fn every_field_has_a_name() {
    let json = serde_json::to_value(Settings::default()).expect("plain data");
    assert_names_are(fields_of(&json));
}

#[test]
fn an_unknown_name_lists_the_names() {
    assert_unknown_name_lists("t_mc", "tolerated_loss");
}

#[test]
fn a_value_out_of_range_states_the_range() {
    assert_range_is_stated(&[
        ("controller", "pats"),
        ("tolerated_loss", "-0.1"),
        ("tolerated_loss", "1.01"),
        ("tolerated_loss", "NaN"),
        ("dimms", "0"),
        ("dimms", "65"),
        ("bypass_bytes", "-1"),
        ("bypass_bytes", "1048577"),
        ("paper_bypass", "yes"),
        ("max_threads", "0"),
        ("max_threads", "4097"),
        ("min_gain", "0"),
        ("probe_windows", "0"),
        ("probe_windows", ""),
    ]);
    assert!(Settings::default().set_pair("dimms").is_err());
}

#[test]
fn settings_from_outside_are_checked() {
    let read = |text: &str| serde_json::from_str::<Settings>(text);
    let partial = read(r#"{"dimms": 3}"#).expect("the rest are defaults");
    assert_eq!(partial.validate(), Ok(()));
    let nonsense = read(r#"{"tolerated_loss": 2.0}"#).expect("only a number");
    assert!(nonsense.validate().is_err());
    assert!(read(r#"{"dimm": 3}"#).is_err(), "unknown keys are refused");
}

#[test]
fn controllers_have_names() {
    for controller in Controller::ALL {
        assert_eq!(controller.to_string().parse(), Ok(controller));
    }
    let error = "eq1"
        .parse::<Controller>()
        .expect_err("no such")
        .to_string();
    assert!(error.contains("formula or learned"), "{error}");
}

#[test]
fn requests_of_exactly_256_bytes_bypass_only_in_paper_mode() {
    let request = |bytes| Request {
        kind: AccessKind::Write,
        bytes,
    };
    let ours = Settings::default();
    let paper = Settings {
        paper_bypass: true,
        ..Settings::default()
    };
    for (bytes, by_text, by_figure) in [
        (0, true, true),
        (255, true, true),
        (256, false, true),
        (257, false, false),
        (u64::MAX, false, false),
    ] {
        assert_eq!(ours.bypass().applies_to(request(bytes)), by_text, "{bytes}");
        assert_eq!(
            paper.bypass().applies_to(request(bytes)),
            by_figure,
            "{bytes}"
        );
    }
}
