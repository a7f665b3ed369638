//! Both measurements on the real engine, mount and preload library, small.

use egeria_harness::testing::skip;
use std::sync::atomic::AtomicBool;

use egeria_bench::datapath::{self, DatapathOptions};
use egeria_bench::demo::{self, DemoOptions, Family};
use egeria_bench::{Error, Progress, Watch};
use egeria_harness::testing::{memory, nothing_is_left, preload_library, strange_library, turn};
use egeria_machine::Machine;
use tempfile::TempDir;

fn small_datapath(memory: &TempDir) -> DatapathOptions<'static> {
    let mut options = DatapathOptions::new(preload_library());
    options.rounds = 1;
    options.measurement_ms = 8;
    options.file_bytes = 4 << 20;
    options.worker = Some(env!("CARGO_BIN_EXE_egeria-datapath-worker").into());
    options.memory_directory = memory.path().to_owned();
    options
}

#[test]
fn the_data_path_is_measured_with_every_call_served_directly() {
    let Some(_turn) = turn() else { return };
    let memory = memory();
    let report = datapath::run(&small_datapath(&memory)).unwrap();
    assert_eq!(report.rows.len(), datapath::plan::cases().len());
    for row in &report.rows {
        assert!(
            row.egeria_ops_s > 0.0 && row.tmpfs_ops_s > 0.0 && row.memcpy_ops_s > 0.0,
            "{row:?}"
        );
    }
    nothing_is_left(&memory);
}

#[test]
fn figures_of_calls_that_the_kernel_served_are_refused() {
    let Some(_turn) = turn() else { return };
    let memory = memory();
    let mut options = small_datapath(&memory);
    options.preload_library = strange_library();
    let error = datapath::run(&options).unwrap_err().to_string();
    assert!(
        error.starts_with("the preload library did not serve the calls itself"),
        "{error}"
    );
    nothing_is_left(&memory);
}

#[test]
fn an_interruption_leaves_nothing_behind() {
    let Some(_turn) = turn() else { return };
    let memory = memory();
    let stop = AtomicBool::new(false);
    let after_a_few = |progress: &Progress<'_>| {
        stop.store(progress.done == 3, std::sync::atomic::Ordering::Relaxed)
    };
    let options = DatapathOptions {
        watch: Watch {
            cancel: Some(&stop),
            progress: &after_a_few,
        },
        ..small_datapath(&memory)
    };
    assert!(matches!(datapath::run(&options), Err(Error::Interrupted)));
    nothing_is_left(&memory);
}

#[test]
fn the_demonstration_leaves_only_its_report() {
    let Some(_turn) = turn() else { return };
    let (memory, output) = (memory(), tempfile::tempdir().unwrap());
    let machine = Machine::profile("optane-2s").unwrap();
    let mut options = DemoOptions::new(machine, preload_library(), output.path().join("report"));
    options.quick = true;
    options.worker = Some(env!("CARGO_BIN_EXE_egeria-names-worker").into());
    options.loopback = Some(env!("CARGO_BIN_EXE_egeria-loopback").into());
    options.memory_directory = memory.path().to_owned();
    let report = match demo::run(&options) {
        Err(error @ Error::MissingPrograms { .. }) => {
            skip(error);
            return;
        }
        outcome => outcome.unwrap(),
    };
    assert!(report.all_verified(), "{}", report.table());
    for row in &report.rows {
        assert!(row.local_bytes + row.remote_bytes > 0, "{row:?}");
        assert_eq!(
            row.egeria_emulated.is_some(),
            row.family != Family::Everyday,
            "{row:?}"
        );
        if row.family == Family::Fio {
            assert!(
                row.direct_calls > 100 && row.direct_calls > 10 * row.passed_calls,
                "{row:?}"
            );
        }
    }
    let json: serde_json::Value =
        serde_json::from_slice(&std::fs::read(&report.json).unwrap()).unwrap();
    assert_eq!(json["rows"].as_array().unwrap().len(), report.rows.len());
    assert_eq!(
        std::fs::read_to_string(&report.html).unwrap(),
        demo::page(&report)
    );
    nothing_is_left(&memory);
}
