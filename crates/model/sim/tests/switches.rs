//! More threads than cores get what the micro-benchmark of switching says (`egeria-lab bench switches`).

use crate::common;

use std::collections::BTreeMap;

use common::*;
use serde::Deserialize;

#[derive(Deserialize)]
struct Measured {
    rows: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    working_set_bytes: u64,
    /// By threads.
    of_alone: BTreeMap<String, f64>,
}

#[test]
fn threads_that_take_turns_get_what_was_measured() {
    let text = include_str!("../../../base/machine/facts/switches.toml");
    let measured: Measured = toml::from_str(text).unwrap();
    let machine = machine(1, &plain(1));
    let get = |count: u64| {
        rate(
            &machine,
            vec![threads("a", count, 0, 0, reading(100_000.0))],
        )
    };
    let alone = get(1);
    for row in &measured.rows {
        for (count, of_alone) in &row.of_alone {
            let predicted = get(count.parse().unwrap()) / alone;
            let distance = (predicted / of_alone - 1.0).abs();
            let bytes = row.working_set_bytes;
            assert!(distance < 0.01, "{count} threads, {bytes} B: {predicted}");
        }
    }
    assert_eq!(measured.rows.len(), 3);
}
