//! A figure's run on the real engine, mount, preload library and steward, tiny.

use std::sync::atomic::AtomicBool;
use std::time::Duration;

use egeria_bench::nthread::{self, Extent, Figure, Group, NthreadOptions, NthreadReport, groups};
use egeria_bench::{Error, Watch};
use egeria_harness::testing::{can_mount, has_program, preload_library};
use egeria_machine::Machine;
use tempfile::TempDir;

/// Whether anything can be mounted and started here; said loudly where not.
fn can_run() -> bool {
    can_mount() && has_program("fio")
}

fn options(out: &TempDir) -> NthreadOptions<'static> {
    NthreadOptions {
        output_directory: Some(out.path().to_owned()),
        repetitions: 1,
        ..NthreadOptions::new(
            Machine::resolve(Some("optane-2s"), None).unwrap(),
            preload_library(),
            env!("CARGO_BIN_EXE_egeria-filebench").into(),
        )
    }
}

/// Some bars of Fig. 5a's mixed workload, short.
fn tiny(setups: &[&str]) -> Vec<Group> {
    let mut tiny = groups(Extent::Full, &[Figure::FiveA]);
    tiny.retain(|group| {
        group.programs[0].workload() == "rw60" && setups.contains(&group.setup.name)
    });
    for group in &mut tiny {
        group.pace.warmup = Duration::from_millis(100);
        group.pace.measured = Duration::from_millis(300);
    }
    tiny
}

fn bar<'a>(report: &'a NthreadReport, config: &str) -> &'a nthread::Bar {
    let mut bars = report.bars.iter();
    bars.find(|bar| bar.row.config == config).unwrap()
}

#[test]
fn fio_with_and_without_a_steward_gives_rows_and_a_page() {
    if !can_run() {
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let groups = tiny(&["nova", "nova_n", "full"]);
    let report = nthread::run_groups(&options(&out), &groups).unwrap();
    assert_eq!(report.failures, Vec::<String>::new());
    assert_eq!(report.bars.len(), 3);
    for bar in &report.bars {
        assert!(bar.row.throughput.unwrap() > 0.0, "{:?}", bar.row);
        assert!(bar.row.vs_nova.is_some() && bar.row.vs_nova_n.is_some());
        assert!((0.0..=1.0).contains(&bar.row.local_share.unwrap()));
        assert!(!bar.series.is_empty());
    }
    let nova = bar(&report, "nova");
    assert_eq!((nova.row.vs_nova, nova.row.moves), (Some(1.0), Some(0)));
    let written = |node: usize| {
        nova.series
            .iter()
            .map(|each| each.written_bytes_s[node])
            .sum::<f64>()
    };
    assert!(
        written(0) > 0.0 && written(1) == 0.0,
        "nova knows node 0 only"
    );
    // Half of the threads are scheduled away from the one node that has data.
    assert!(nova.row.local_share.unwrap() < 0.95, "{:?}", nova.row);
    let page = std::fs::read_to_string(out.path().join("nthread.html")).unwrap();
    assert!(page.contains("Figure 5a") && page.contains("emulated machine"));
    assert!(!page.contains("http"), "the page needs nothing but itself");
    assert!(page.contains("class=\"verdict") && !page.contains("\"></p>"));
    let rows = serde_json::to_value(&report).unwrap();
    let names: Vec<&String> = rows[0].as_object().unwrap().keys().collect();
    let mut expected = [
        "figure",
        "workload",
        "threads",
        "instances",
        "config",
        "throughput",
        "vs_nova",
        "vs_nova_n",
        "min_vs_nova",
        "max_vs_nova",
        "repetitions",
        "settled",
        "paper_vs_nova",
        "local_share",
        "moves",
    ];
    expected.sort_unstable();
    let mut names: Vec<&str> = names.into_iter().map(String::as_str).collect();
    names.sort_unstable();
    assert_eq!(names, expected);
}

#[test]
fn a_program_that_fails_is_a_row_without_figures_and_a_line() {
    if !can_run() {
        return;
    }
    let out = tempfile::tempdir().unwrap();
    let mut groups = groups(Extent::Full, &[Figure::SixA]);
    groups.truncate(1);
    let broken = out.path().join("broken");
    std::fs::write(&broken, "#!/bin/sh\necho no such luck >&2\nexit 3\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&broken, mode).unwrap();
    let options = NthreadOptions {
        filebench_program: broken,
        ..options(&out)
    };
    let report = nthread::run_groups(&options, &groups).unwrap();
    assert_eq!(report.bars.len(), 1);
    assert_eq!(report.bars[0].row.throughput, None);
    let failure = report.failures.join("\n");
    assert!(
        failure.contains("Fig. 6a") && failure.contains("no such luck"),
        "{failure}"
    );
    assert!(report.table().contains("failed"));
}

#[test]
fn what_cannot_be_measured_is_refused_with_a_hint() {
    let out = tempfile::tempdir().unwrap();
    let missing = NthreadOptions {
        filebench_program: out.path().join("none"),
        ..options(&out)
    };
    let text = nthread::run(&missing).unwrap_err().to_string();
    assert!(text.contains("build it"), "{text}");
    if can_run() {
        let cancelled = AtomicBool::new(true);
        let stopped = NthreadOptions {
            watch: Watch {
                cancel: Some(&cancelled),
                ..Watch::default()
            },
            ..options(&out)
        };
        let error = nthread::run(&stopped).unwrap_err();
        assert!(matches!(error, Error::Interrupted), "{error}");
    }
}
