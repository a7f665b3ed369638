//! What tests of whole programs need. It panics where other code returns errors: a test shall fail.

mod background;
mod command;
pub mod html;
pub mod session;
mod skip;
pub mod usage;

pub use background::{Background, eventually, kill};
pub use command::{Ended, PATIENCE, Running, finish, wait, wait_within, without_surroundings};

pub use skip::{SKIPS, skip};

use std::ffi::OsStr;
use std::fs::File;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::SystemTime;

use tempfile::TempDir;

/// Where the programs of this build are: tests are in `deps` below it.
///
/// # Panics
/// When the running test is not in such a directory.
pub fn build_directory() -> PathBuf {
    let test = std::env::current_exe().expect("path of the test");
    let directory = test.parent().and_then(Path::parent);
    directory.expect("a build directory").to_owned()
}

/// A file that another package of the workspace builds, built as this test was when it is not there yet, or a source of it
/// is newer. Cargo alone would build it again after a build of the whole workspace, where dependencies have more features.
///
/// # Panics
/// When it does not build.
pub fn built(package: &str, file: &str) -> PathBuf {
    let directory = build_directory();
    let path = directory.join(file);
    if !is_fresh(&path) {
        build(package, &directory);
    }
    assert!(path.is_file(), "{} was not built", path.display());
    path
}

/// Whether a file is there and no source that cargo noted for it is newer.
fn is_fresh(file: &Path) -> bool {
    let (Some(built), Ok(noted)) = (
        modified(file),
        std::fs::read_to_string(file.with_extension("d")),
    ) else {
        return false;
    };
    let first = noted.lines().next().unwrap_or("");
    let mut sources = first.split_whitespace().skip(1).map(Path::new);
    sources.all(|source| modified(source).is_some_and(|time| time <= built))
}

/// When a file was changed last, if it is there.
pub fn modified(path: &Path) -> Option<SystemTime> {
    path.metadata().and_then(|facts| facts.modified()).ok()
}

/// `directory` is `target/[triple/]profile`.
fn build(package: &str, directory: &Path) {
    let name_of = |path: &Path| path.file_name().and_then(OsStr::to_str).map(str::to_owned);
    let profile = name_of(directory).unwrap_or_default();
    let profile = if profile == "debug" { "dev" } else { &profile };
    let above = directory.parent().expect("a target directory");
    let manifest = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../Cargo.toml");
    let mut build = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    build.args(["build", "--quiet", "--package", package]);
    build.args(["--profile", profile, "--manifest-path", manifest]);
    // A directory named like a target triple means that one was asked for.
    let is_triple = |name: &String| name.split('-').count() >= 3 && name.starts_with("x86_64-");
    let target = match name_of(above).filter(is_triple) {
        Some(triple) => {
            build.args(["--target", &triple]);
            above.parent().expect("a target directory")
        }
        None => above,
    };
    let status = build.arg("--target-dir").arg(target).status();
    assert!(status.expect("cargo").success(), "{package} does not build");
}

/// The preload library of this build.
pub fn preload_library() -> PathBuf {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    let build = || built("egeria-preload", "libegeria_preload.so");
    LIBRARY.get_or_init(build).clone()
}

/// A library that can be preloaded and serves nothing, as a preload library that is switched off, or of another build.
///
/// # Panics
/// When this process has no libc.
pub fn strange_library() -> PathBuf {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("the own mappings");
    let libc = maps.lines().find(|line| line.contains("/libc.so"));
    let libc = libc.expect("libc");
    libc[libc.find('/').expect("a path")..].into()
}

/// Lets tests that take memory and processors run one at a time. `None`, said loudly, where nothing can be mounted.
pub fn turn() -> Option<MutexGuard<'static, ()>> {
    static TURN: Mutex<()> = Mutex::new(());
    let guard = TURN.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    can_mount().then_some(guard)
}

/// Whether mounting can work here; says so loudly when not.
pub fn can_mount() -> bool {
    let fuse = File::options().read(true).write(true).open("/dev/fuse");
    if fuse.is_err() {
        skip("/dev/fuse cannot be opened, so nothing can be mounted here");
    }
    fuse.is_ok()
}

/// Whether an ordinary user can mount too, as udev's rules of fuse3 allow it; a container's own device may be root's alone.
pub fn anybody_can_mount() -> bool {
    let device = std::fs::metadata("/dev/fuse");
    let open = device.is_ok_and(|device| device.permissions().mode() & 0o006 == 0o006);
    if !open {
        skip("/dev/fuse is not open to ordinary users here");
    }
    open
}

/// Whether threads can be moved between CPUs here, as between nodes that each have one; says so loudly when not.
pub fn has_two_cpus() -> bool {
    let has = std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() >= 2);
    if !has {
        skip("this process may use one CPU only");
    }
    has
}

/// Whether this kernel shows which nodes hold the pages of a process; says so loudly when not.
pub fn has_numa_maps() -> bool {
    let has = Path::new("/proc/self/numa_maps").exists();
    if !has {
        skip("this kernel has no /proc/PID/numa_maps");
    }
    has
}

/// Whether a program starts, loudly when not.
pub fn has_program(name: &str) -> bool {
    let mut version = Command::new(name);
    version.arg("--version").stdin(Stdio::null());
    let has = version.output().is_ok();
    if !has {
        skip(format_args!(
            "{name} is missing; `make setup` names what installs it"
        ));
    }
    has
}

/// Whether this is root, as tests about other users need; says so loudly when not.
pub fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skip("only root can become another user or make its own mounts");
    }
    root
}

/// A tmpfs directory of this test's own, so that what is left behind shows.
///
/// # Panics
/// When it cannot be made.
pub fn memory() -> TempDir {
    let mut directory = tempfile::Builder::new();
    let made = directory.prefix("egeria-test-").tempdir_in("/dev/shm");
    made.expect("a directory in /dev/shm")
}

/// Which of the pages from `address` on this process can use without a fault.
///
/// # Panics
/// When its page map cannot be read.
pub fn pages_in_use(address: *const u8, pages: usize) -> Vec<bool> {
    const PAGE_BYTES: u64 = 4096;
    const PRESENT: u64 = 1 << 63;
    let map = File::open("/proc/self/pagemap").expect("a page map");
    let mut words = vec![0; pages * 8];
    map.read_exact_at(&mut words, address as u64 / PAGE_BYTES * 8)
        .expect("words of the page map");
    let words = words.as_chunks().0.iter();
    words
        .map(|word| u64::from_le_bytes(*word) & PRESENT != 0)
        .collect()
}

/// Fails when a measurement left files in `memory`, or a mount point, behind.
///
/// # Panics
/// When something is left.
pub fn nothing_is_left(memory: &TempDir) {
    let entries = std::fs::read_dir(memory.path()).expect("a list");
    let left: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
    // Mount points carry the process that made them; other processes may measure beside.
    let name = format!("/egeria-run-{}-", std::process::id());
    let mounts = std::fs::read_to_string("/proc/self/mounts").expect("mounts");
    let ours: Vec<&str> = mounts.lines().filter(|line| line.contains(&name)).collect();
    assert!(ours.is_empty(), "still mounted: {ours:?}");
}
