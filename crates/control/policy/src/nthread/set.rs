//! Settings by name: `--set name=value`.

use super::settings::{PmRule, Settings};
use crate::setting::{Entry, SWITCH, by_name, entry, number, on_or_off, switch};

const SHARE: &str = "a number above 0, up to 1000 (1 is all)";
const RATE: &str = "bytes per second, 0 to 1e15";
const FACTOR: &str = "a number from 1 to 1000";
const MAXIMUM: &str = "bytes per second, 1 to 1e15, or auto";
const WEIGHT: &str = "a number from 0 to 1";
const RULE: &str = "peak or curve";
const DIMMS: &str = "a whole number from 1 to 64, or auto";

const ENTRIES: [Entry<Settings>; 17] = [
    entry!(stages.[remote], SWITCH, on_or_off, switch),
    entry!(stages.[cpu], SWITCH, on_or_off, switch),
    entry!(stages.[pm], SWITCH, on_or_off, switch),
    entry!(stages.[sharing], SWITCH, on_or_off, switch),
    entry!([read_margin_bytes_s], RATE, f64::to_string, rate),
    entry!([read_weight], WEIGHT, f64::to_string, weight),
    entry!([pm_rule], RULE, rule_name, rule),
    entry!([pm_limit], SHARE, f64::to_string, share),
    entry!([pm_ratio], FACTOR, f64::to_string, factor),
    entry!([pm_return], SHARE, f64::to_string, share),
    entry!([cpu_limit], SHARE, f64::to_string, share),
    entry!([cpu_ratio], FACTOR, f64::to_string, factor),
    entry!([cpu_return], SHARE, f64::to_string, share),
    entry!([min_io_bytes_s], RATE, f64::to_string, rate),
    entry!([dimm_read_bytes_s], MAXIMUM, value_or_auto, maximum),
    entry!([dimm_write_bytes_s], MAXIMUM, value_or_auto, maximum),
    entry!([dimms], DIMMS, value_or_auto, dimms),
];

by_name!(Settings, ENTRIES);

fn rule(text: &str) -> Option<PmRule> {
    let mut rules = [PmRule::Peak, PmRule::Curve].into_iter();
    rules.find(|rule| rule.name() == text)
}

fn rule_name(rule: &PmRule) -> String {
    rule.name().to_owned()
}

fn rate(text: &str) -> Option<f64> {
    number(text, 0.0, 1e15)
}

fn weight(text: &str) -> Option<f64> {
    number(text, 0.0, 1.0)
}

fn factor(text: &str) -> Option<f64> {
    number(text, 1.0, 1000.0)
}

fn share(text: &str) -> Option<f64> {
    number(text, f64::MIN_POSITIVE, 1000.0)
}

fn maximum(text: &str) -> Option<Option<f64>> {
    or_auto(text, || number(text, 1.0, 1e15))
}

fn dimms(text: &str) -> Option<Option<u32>> {
    or_auto(text, || number(text, 1, 64))
}

/// `auto` is the machine's own value, kept as `None`.
fn or_auto<T>(text: &str, read: impl Fn() -> Option<T>) -> Option<Option<T>> {
    match text {
        "auto" => Some(None),
        _ => read().map(Some),
    }
}

fn value_or_auto<T: ToString>(value: &Option<T>) -> String {
    value.as_ref().map_or("auto".to_owned(), T::to_string)
}
