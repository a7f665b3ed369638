//! The engine against a reference model in memory: random sequences over the whole file API must give
//! the same results, errnos, contents, attributes and block maps, also after new sessions.
//!
//! `EGERIA_TEST_CASES` sets how many sequences are tried, `EGERIA_TEST_OPERATIONS` how long they are.

mod compare;
mod content;
mod data;
mod generate;
mod harness;
mod model;
mod walks;

use generate::{Operation, Weights, operation};
use harness::Harness;
use proptest::prelude::*;
use proptest::test_runner::{Config, FileFailurePersistence};

fn setting(name: &str, default: usize) -> usize {
    std::env::var(name)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}

fn config(default_cases: usize) -> Config {
    Config {
        cases: setting("EGERIA_TEST_CASES", default_cases) as u32,
        failure_persistence: Some(Box::new(FileFailurePersistence::Off)),
        max_shrink_time: 60_000,
        ..Config::default()
    }
}

fn operations(weights: Weights, default_count: usize) -> impl Strategy<Value = Vec<Operation>> {
    let most = setting("EGERIA_TEST_OPERATIONS", default_count);
    prop::collection::vec(operation(weights), 1..=most)
}

fn run(pools: usize, pool_bytes: u64, operations: &[Operation]) {
    run_on(Harness::new(pools, pool_bytes), operations);
}

fn run_on(mut harness: Harness, operations: &[Operation]) {
    for operation in operations {
        harness.step(operation);
    }
    harness.finish();
}

proptest! {
    #![proptest_config(config(150))]
    #[test]
    fn any_sequence_does_what_the_model_does(operations in operations(Weights::ALL, 240)) {
        run(2, 32 << 20, &operations);
    }

    #[test]
    fn any_sequence_of_names_does_what_the_model_does(operations in operations(Weights::NAMES, 500)) {
        run(1, 16 << 20, &operations);
    }

    #[test]
    fn any_sequence_on_file_data_does_what_the_model_does(operations in operations(Weights::DATA, 300)) {
        run(2, 32 << 20, &operations);
    }

    #[test]
    fn a_full_volume_refuses_and_loses_nothing(operations in operations(Weights::DATA, 300)) {
        run(1, 8 << 20, &operations);
    }

    #[test]
    fn any_sequence_with_checksums_does_what_the_model_does(operations in operations(Weights::ALL, 240)) {
        run_on(Harness::new(2, 32 << 20).with_checksums(), &operations);
    }

    #[test]
    fn any_sequence_with_checksums_on_data_does_as_the_model(operations in operations(Weights::DATA, 300)) {
        run_on(Harness::new(2, 32 << 20).with_checksums(), &operations);
    }

    #[test]
    fn a_full_volume_with_checksums_refuses_and_loses_nothing(operations in operations(Weights::DATA, 300)) {
        run_on(Harness::new(1, 8 << 20).with_checksums(), &operations);
    }
}
