//! Names and everyday programs, measured small on the real engine, mount, preload library and loopback.

use std::sync::atomic::{AtomicBool, Ordering};

use egeria_bench::everyday::{self, Job, Source};
use egeria_bench::names;
use egeria_bench::names::plan::{FRESH, Operation, Sharing, cases};
use egeria_bench::{Error, PlacesOptions, Progress, Watch};
use egeria_harness::testing::{memory, nothing_is_left, preload_library, strange_library, turn};
use tempfile::TempDir;

fn options<'a>(memory: &TempDir) -> PlacesOptions<'a> {
    PlacesOptions {
        rounds: 1,
        worker: Some(env!("CARGO_BIN_EXE_egeria-names-worker").into()),
        loopback: Some(env!("CARGO_BIN_EXE_egeria-loopback").into()),
        memory_directory: memory.path().to_owned(),
        ..PlacesOptions::new(preload_library())
    }
}

fn small_names() -> names::Selection {
    names::Selection {
        measurement_ms: 1,
        entries: vec![10],
        fresh: vec![100],
        ..names::Selection::all()
    }
}

fn small_everyday() -> everyday::Selection {
    everyday::Selection::all(Source::Made)
}

#[test]
fn every_operation_is_measured_on_every_place() {
    let Some(_turn) = turn() else { return };
    let memory = memory();
    let report = names::run(&options(&memory), &small_names()).unwrap();
    // One thread, and two in own and shared directories; one on fresh volumes.
    assert_eq!(report.rows.len(), Operation::ALL.len() * 3 + FRESH.len());
    let fresh = report.rows.iter().filter(|row| row.directory == "fresh");
    let fresh: Vec<_> = fresh.map(|row| (row.op.as_str(), row.entries)).collect();
    assert_eq!(fresh, FRESH.map(|operation| (operation.name(), 100)));
    for row in &report.rows {
        let figures = [row.tmpfs_ns, row.run_ns, row.mount_ns, row.loopback_ns];
        assert!(figures.iter().all(|ns| *ns > 0.0), "{row:?}");
    }
    let json = serde_json::to_value(&report).unwrap();
    let mut fields: Vec<&String> = json[0].as_object().unwrap().keys().collect();
    fields.sort();
    let promised = [
        "directory",
        "entries",
        "loopback_ns",
        "mount_ns",
        "op",
        "run_ns",
        "spread",
        "threads",
        "tmpfs_ns",
    ];
    assert_eq!(fields, promised);
    assert!(report.table().contains("open_deep"));
    nothing_is_left(&memory);
}

#[test]
fn a_library_that_does_not_serve_the_volume_is_refused() {
    let Some(_turn) = turn() else { return };
    let memory = memory();
    let mut options = options(&memory);
    options.preload_library = strange_library();
    let names = names::run(&options, &small_names()).map(|_| ());
    let everyday = everyday::run(&options, &small_everyday()).map(|_| ());
    for refused in [names, everyday] {
        let error = refused.unwrap_err().to_string();
        assert!(
            error.starts_with("the preload library did not serve the calls itself"),
            "{error}"
        );
        assert!(!error.contains('\n'), "{error}");
    }
    nothing_is_left(&memory);
}

#[test]
fn one_thread_has_a_directory_of_its_own() {
    let cases = cases(&[Operation::Stat], &[10, 100], 2);
    let ways: Vec<_> = cases
        .iter()
        .map(|case| (case.entries, case.threads, case.sharing))
        .collect();
    let (own, shared) = (Sharing::Own, Sharing::Shared);
    let few = [(10, 1, own), (10, 2, own), (10, 2, shared)];
    let more = [(100, 1, own), (100, 2, own), (100, 2, shared)];
    assert_eq!(ways, [few, more].concat());
}

#[test]
fn every_job_leaves_the_same_everywhere() {
    let Some(_turn) = turn() else { return };
    let memory = memory();
    let report = everyday::run(&options(&memory), &small_everyday()).unwrap();
    assert!(report.all_verified(), "{:?}", report.failures);
    assert_eq!(
        report.rows.len() + report.skipped.len(),
        Job::ALL.len(),
        "{:?}",
        report.skipped
    );
    for row in &report.rows {
        let figures = [row.tmpfs_s, row.run_s, row.mount_s, row.loopback_s];
        assert!(
            figures
                .iter()
                .all(|seconds| seconds.is_some_and(|seconds| seconds > 0.0)),
            "{row:?}"
        );
    }
    let json = serde_json::to_value(&report).unwrap();
    let mut fields: Vec<&String> = json[0].as_object().unwrap().keys().collect();
    fields.sort();
    let promised = [
        "job",
        "loopback_s",
        "mount_s",
        "run_s",
        "spread",
        "tmpfs_s",
        "verified",
    ];
    assert_eq!(fields, promised);
    nothing_is_left(&memory);
}

#[test]
fn interruptions_leave_nothing_behind() {
    let Some(_turn) = turn() else { return };
    let memory = memory();
    let stop = AtomicBool::new(false);
    let after_a_few = |progress: &Progress<'_>| stop.store(progress.done == 2, Ordering::Relaxed);
    let options = PlacesOptions {
        watch: Watch {
            cancel: Some(&stop),
            progress: &after_a_few,
        },
        ..options(&memory)
    };
    let measured = names::run(&options, &small_names());
    assert!(matches!(measured, Err(Error::Interrupted)));
    stop.store(false, Ordering::Relaxed);
    let measured = everyday::run(&options, &small_everyday());
    assert!(matches!(measured, Err(Error::Interrupted)));
    nothing_is_left(&memory);
}
