//! C programs, compiled as `egeria.pc` says against the library as it is installed, on a real volume.

use egeria_engine::{CreateOptions, PoolRequest, Repair, check_volume, create_volume};
use egeria_harness::testing::built;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use tempfile::TempDir;

fn here() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Where the library is installed for these tests.
fn installed() -> &'static Path {
    static INSTALLED: OnceLock<PathBuf> = OnceLock::new();
    INSTALLED.get_or_init(|| {
        let library = built("egeria-capi", "libegeria.a");
        let prefix = Path::new(env!("CARGO_TARGET_TMPDIR")).join("c-library");
        let made = Command::new(here().join("../../../scripts/install-library"))
            .arg(library.parent().unwrap())
            .arg(&prefix)
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", text(&made.stderr));
        prefix
    })
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn pkg_config(words: &[&str]) -> Vec<String> {
    let said = Command::new("pkg-config")
        .args(words)
        .arg("egeria")
        .env("PKG_CONFIG_PATH", installed().join("lib/pkgconfig"))
        .output()
        .expect("no pkg-config: install the package pkg-config");
    assert!(said.status.success(), "{}", text(&said.stderr));
    text(&said.stdout)
        .split_whitespace()
        .map(str::to_owned)
        .collect()
}

fn compile(source: &str, directory: &Path) -> PathBuf {
    let program = directory.join("program");
    let status = Command::new("cc")
        .args([
            "-std=gnu11",
            "-O1",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-pthread",
            "-o",
        ])
        .arg(&program)
        .arg(here().join(source))
        .args(pkg_config(&["--cflags", "--libs"]))
        .status()
        .expect("no C compiler: install the package gcc");
    assert!(status.success(), "{source} does not compile");
    program
}

/// A volume of two pools, and a directory for the program.
fn volume() -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let pools = [0, 1].map(|node| PoolRequest {
        node,
        path: directory.path().join(format!("pool-{node}")),
        bytes: Some(32 << 20),
    });
    create_volume(&pools, &CreateOptions::default()).unwrap();
    let pool = directory.path().join("pool-0");
    (directory, pool)
}

fn run(source: &str) -> Output {
    let (directory, pool) = volume();
    let ran = Command::new(compile(source, directory.path()))
        .arg(&pool)
        .env("LD_LIBRARY_PATH", installed().join("lib"))
        .output()
        .unwrap();
    assert!(
        ran.status.success(),
        "{:?}: {}",
        ran.status,
        text(&ran.stderr)
    );
    assert_eq!(text(&ran.stderr), "");
    let report = check_volume(&pool, Repair::No, &mut |_, _| {}).unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    ran
}

/// What `readelf` says of the installed library.
fn readelf(what: &str) -> String {
    let said = Command::new("readelf")
        .args([what, "--wide"])
        .arg(installed().join("lib/libegeria.so"))
        .output()
        .expect("no readelf: install the package binutils");
    assert!(said.status.success(), "{}", text(&said.stderr));
    text(&said.stdout)
}

#[test]
fn library_exports_what_the_map_names_and_nothing_else() {
    let dynamic = readelf("--dynamic");
    assert!(
        dynamic.contains("Library soname: [libegeria.so.0]"),
        "{dynamic}"
    );
    let symbols = readelf("--dyn-syms");
    let mut exported: Vec<&str> = symbols
        .lines()
        .filter(|line| line.contains(" GLOBAL ") || line.contains(" WEAK "))
        .filter(|line| !line.contains(" UND "))
        .filter_map(|line| line.split_whitespace().last())
        .collect();
    exported.sort_unstable();
    let map = std::fs::read_to_string(here().join("libegeria.map")).unwrap();
    let (mut named, mut version) = (Vec::new(), "");
    for line in map.lines().map(str::trim) {
        if let Some(begun) = line.strip_suffix(" {") {
            version = begun;
            // The version itself is a symbol as well.
            named.push(version.to_owned());
        }
        let name = line.strip_suffix(';');
        let name = name.filter(|name| name.starts_with("egeria_"));
        named.extend(name.map(|name| format!("{name}@@{version}")));
    }
    named.sort_unstable();
    exported.dedup();
    assert_eq!(exported, named);
}

#[test]
fn example_writes_and_locates() {
    let said = text(&run("examples/locate.c").stdout);
    assert!(said.starts_with("byte 0 on: 4096 bytes on node "), "{said}");
    assert!(said.ends_with("\ntoday\n"), "{said}");
}

#[test]
fn example_of_threads_loses_no_line() {
    assert_eq!(text(&run("examples/threads.c").stdout), "1600 lines\n");
}

#[test]
fn example_of_fork_keeps_parent_and_child_apart() {
    let said = text(&run("examples/fork.c").stdout);
    assert_eq!(said, "parent and children kept apart\n");
}

#[test]
fn wrong_arguments_give_an_errno() {
    assert_eq!(
        text(&run("tests/programs/errors.c").stdout),
        "all refused\n"
    );
}

#[test]
fn symbols_have_versions_and_nothing_else_is_exported() {
    let library = installed().join("lib/libegeria.so.0");
    let listed = Command::new("objdump").arg("-T").arg(&library).output();
    let listed = text(
        &listed
            .expect("no objdump: install the package binutils")
            .stdout,
    );
    let mut defined = 0;
    for line in listed.lines().filter(|line| line.contains(" g ")) {
        assert!(line.contains("EGERIA_"), "{line}");
        defined += 1;
    }
    assert!(defined > 20, "{listed}");
    let head = Command::new("objdump")
        .arg("-p")
        .arg(&library)
        .output()
        .unwrap();
    let head = text(&head.stdout);
    assert!(
        head.lines()
            .any(|line| line.trim().starts_with("SONAME") && line.ends_with("libegeria.so.0"))
    );
}

#[test]
fn links_and_attributes_work_from_c() {
    run("tests/programs/links.c");
}
