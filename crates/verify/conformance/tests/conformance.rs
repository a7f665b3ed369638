//! The cases on tmpfs, on a mount, and on a mount under the preload library.
//!
//! tmpfs shows that the cases are right. What a mount does not keep is listed here with the number of the
//! statement in docs/reference/semantics.md that says so, and the list is exact.

#[path = "../../../storage/preload/tests/common/mod.rs"]
mod common;

use common::{Mounted, finish, library};
use egeria_harness::testing::is_root;
use egeria_mount::{LeaseTiming, MountOptions};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

/// What tmpfs lacks, or gets wrong on some kernels: shown by the file system of the build directory.
const NOT_SHOWN_BY_TMPFS: [&str; 6] = [
    "directory::what_stays_is_listed_once_among_changes",
    "map::mapped_stores_move_times",
    "map_stores::stores_behind_the_end_are_no_data",
    "size::ranges_are_zeroed",
    "size::ranges_collapse_and_make_room",
    "times::each_change_after_a_look_has_a_later_time",
];

/// A case that fails, the statement that says so, and with what words.
type Declared = (&'static str, u32, &'static str);

/// What differs on a mount.
const DECLARED: [Declared; 7] = [
    (
        "control::epoll_refuses_files",
        50,
        "succeeded with (), EPERM expected",
    ),
    (
        "times::reading_moves_access_times",
        20,
        "found_times()[0] > before",
    ),
    (
        "names::named_without_opening_outlives_the_name",
        49,
        "ESTALE",
    ),
    ("open::device_nodes_without_driver", 36, "EACCES"),
    (
        "programs::setid_programs_change_users",
        36,
        "left: \"40001\"",
    ),
    (
        "size::ranges_collapse_and_make_room",
        13,
        "no FALLOC_FL_COLLAPSE_RANGE",
    ),
    ("xattr::values_to_64_kib", 18, "ENOSPC"),
];
/// What differs without the preload library besides.
const DECLARED_WITHOUT: [Declared; 4] = [
    ("open::unnamed_files_beside_watches", 27, "EOPNOTSUPP"),
    ("open::unnamed_files_have_group_bits", 27, "EOPNOTSUPP"),
    ("open::unnamed_files_get_names", 27, "EOPNOTSUPP"),
    ("open::unnamed_files_that_must_stay_so", 27, "EOPNOTSUPP"),
];
/// What differs in striped files besides.
const DECLARED_STRIPED: [Declared; 1] = [("size::all_that_is_free_can_be_allocated", 10, "ENOSPC")];

/// What is declared and depends on how much is free: the log of a striped file may have room in what others left.
const MAY_PASS: [&str; 1] = ["size::all_that_is_free_can_be_allocated"];

#[derive(Deserialize)]
struct Report {
    cases: Vec<Outcome>,
}

#[derive(Deserialize)]
struct Outcome {
    name: String,
    outcome: String,
    #[serde(default)]
    message: String,
}

/// How the cases went, by name: nothing, or why not.
type Results = BTreeMap<String, Option<String>>;

fn run(command: &mut Command, directory: &Path) -> Results {
    let output = finish(command.arg(directory).arg("--json"));
    let text = String::from_utf8_lossy(&output.stdout);
    let report: Report = serde_json::from_str(&text).unwrap_or_else(|error| {
        let words = String::from_utf8_lossy(&output.stderr);
        panic!("{error}: {}\n{text}{words}", output.status)
    });
    let kept = |case: Outcome| {
        let words = format!("{} {}", case.outcome, case.message);
        (case.name, (case.outcome != "passed").then_some(words))
    };
    report.cases.into_iter().map(kept).collect()
}

fn runner() -> Command {
    Command::new(env!("CARGO_BIN_EXE_egeria-conformance"))
}

/// A directory of this run that other users can enter.
fn open_directory(root: &Path) -> tempfile::TempDir {
    let directory = tempfile::Builder::new()
        .prefix("egeria-conformance-")
        .tempdir_in(root)
        .unwrap();
    let open = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(directory.path(), open).unwrap();
    directory
}

/// A tmpfs as small as the volumes here; gone when dropped.
struct SmallTmpfs(tempfile::TempDir);

impl SmallTmpfs {
    fn new() -> SmallTmpfs {
        let point = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=512m,mode=755", "tmpfs"]);
        assert!(mount.arg(point.path()).status().unwrap().success());
        SmallTmpfs(point)
    }
}

impl Drop for SmallTmpfs {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.0.path()).status();
    }
}

/// Fail with all that is wrong, not the first.
fn assert_none(wrong: Vec<String>) {
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn tmpfs_shows_that_the_cases_are_right() {
    if !is_root() {
        return;
    }
    let small = SmallTmpfs::new();
    let results = run(&mut runner(), small.0.path());
    let lacking = |name: &str| NOT_SHOWN_BY_TMPFS.contains(&name);
    let wrong = results
        .into_iter()
        .filter(|(name, _)| !lacking(name))
        .filter_map(|(name, words)| Some(format!("{name}: {}", words?)));
    assert_none(wrong.collect());
}

/// Without rights of its own it can do less, and still removes what it made and tells what it saw.
#[test]
fn an_unprivileged_user_gets_a_report_too() {
    if !is_root() {
        return;
    }
    let directory = open_directory(Path::new("/dev/shm"));
    // The build directory may be closed to others.
    let runner = directory.path().join("runner");
    std::fs::copy(env!("CARGO_BIN_EXE_egeria-conformance"), &runner).unwrap();
    let own = directory.path().join("own");
    std::fs::create_dir(&own).unwrap();
    let nobody = 65_534;
    std::os::unix::fs::chown(&own, Some(nobody), Some(nobody)).unwrap();
    let mut command = Command::new("setpriv");
    command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    command.arg(runner).args(["--filter", "change"]);
    let results = run(&mut command, &own);
    assert_eq!(results["attributes::modes_change"], None);
    assert_eq!(std::fs::read_dir(&own).unwrap().count(), 0);
}

#[test]
fn a_disk_shows_what_tmpfs_lacks() {
    if !is_root() {
        return;
    }
    let directory = open_directory(Path::new(env!("CARGO_TARGET_TMPDIR")));
    for name in NOT_SHOWN_BY_TMPFS {
        let results = run(runner().args(["--filter", name]), directory.path());
        assert_eq!(results, BTreeMap::from([(name.to_owned(), None)]));
    }
}

/// Everything passes but what is declared, and that fails as is declared.
fn assert_as_declared(results: &Results, declared: &[Declared]) {
    let mut wrong = Vec::new();
    for (name, words) in results {
        let statement = declared.iter().find(|(declared, ..)| declared == name);
        match (statement, words) {
            (None, Some(words)) => wrong.push(format!("{name}: {words}")),
            (Some(_), None) if MAY_PASS.contains(&name.as_str()) => {}
            (Some((_, number, _)), None) => wrong.push(format!(
                "{name} passes: statement {number} of docs/reference/semantics.md is out of date"
            )),
            (Some((_, _, expected)), Some(words)) if !words.contains(expected) => {
                wrong.push(format!("{name} fails otherwise than {expected}: {words}"));
            }
            _ => {}
        }
    }
    let unknown = declared
        .iter()
        .filter(|(name, ..)| !results.contains_key(*name));
    wrong.extend(unknown.map(|(name, ..)| format!("no case is named {name}")));
    assert_none(wrong);
}

#[test]
fn the_document_names_what_is_declared() {
    let text = include_str!("../../../../docs/reference/semantics.md");
    let all = [&DECLARED[..], &DECLARED_WITHOUT, &DECLARED_STRIPED].concat();
    for (name, number, _) in all {
        let (_, statement) = text.split_once(&format!("\n**{number}** ")).unwrap();
        let (statement, _) = statement.split_once("]\n").unwrap();
        assert!(
            statement.contains(&format!("conformance/{name}")),
            "{number}: {name}"
        );
    }
}

fn mounted() -> Option<Mounted> {
    Mounted::with(&MountOptions {
        allow_other: true,
        leases: LeaseTiming::AtOnce,
        ..MountOptions::default()
    })
    .filter(|_| is_root())
    .inspect(|mounted| {
        let open = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(mounted.point(), open).unwrap();
    })
}

#[test]
fn a_mount_keeps_what_tmpfs_keeps() {
    let Some(mounted) = mounted() else { return };
    let declared = [&DECLARED[..], &DECLARED_WITHOUT].concat();
    assert_as_declared(&run(&mut runner(), mounted.point()), &declared);
}

#[test]
fn the_preload_library_keeps_it_too() {
    let Some(mounted) = mounted() else { return };
    let before = mounted.volume.counters();
    let results = run(runner().env("LD_PRELOAD", library()), mounted.point());
    let declared = DECLARED.to_vec();
    assert_as_declared(&results, &declared);
    // It was really used.
    mounted.assert_served(&before, 10_000, "conformance");
}

/// Files whose blocks go to two pools in turn.
fn mounted_striped() -> Option<Mounted> {
    let mounted = mounted()?;
    let layout = rustix::fs::setxattr(
        mounted.point(),
        "user.egeria.layout",
        b"striped:4096",
        rustix::fs::XattrFlags::empty(),
    );
    layout.unwrap();
    Some(mounted)
}

/// That it is so: a new file of two blocks has one on each pool.
fn assert_striped(mounted: &Mounted) {
    let before = mounted.volume.counters().written_bytes;
    std::fs::write(mounted.path("striped"), [1; 8192]).unwrap();
    let after = mounted.volume.counters().written_bytes;
    let written: Vec<u64> = before
        .iter()
        .zip(after)
        .map(|(before, after)| after - before)
        .collect();
    assert!(
        written.iter().take(2).all(|bytes| *bytes >= 4096),
        "{written:?}"
    );
    std::fs::remove_file(mounted.path("striped")).unwrap();
}

#[test]
fn a_mount_keeps_it_in_striped_files() {
    let Some(mounted) = mounted_striped() else {
        return;
    };
    assert_striped(&mounted);
    let declared = [&DECLARED[..], &DECLARED_WITHOUT, &DECLARED_STRIPED].concat();
    assert_as_declared(&run(&mut runner(), mounted.point()), &declared);
}

#[test]
fn the_preload_library_keeps_it_in_striped_files() {
    let Some(mounted) = mounted_striped() else {
        return;
    };
    assert_striped(&mounted);
    let before = mounted.volume.counters();
    let results = run(runner().env("LD_PRELOAD", library()), mounted.point());
    let declared = [&DECLARED[..], &DECLARED_STRIPED].concat();
    assert_as_declared(&results, &declared);
    mounted.assert_served(&before, 10_000, "conformance of striped files");
}
