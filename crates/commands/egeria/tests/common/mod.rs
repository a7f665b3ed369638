//! Running the command as a user does, in a place of its own that is cleaned afterwards.
#![allow(dead_code, unused_imports, reason = "each test program uses a part")]

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

pub use egeria_harness::testing::{
    Background, Ended, PATIENCE, Running, anybody_can_mount, can_mount, eventually, finish,
    is_root, kill, wait,
};
use egeria_harness::testing::{skip, without_surroundings};

/// The command with these arguments, without what the caller's environment would add.
pub fn egeria<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_egeria"));
    command.args(arguments);
    without_surroundings(&mut command);
    command
}

pub fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

/// Commands of a page's shell blocks, in order.
pub fn commands_of(page: &str) -> Vec<&str> {
    let blocks = page.split("```sh\n").skip(1);
    let blocks = blocks.filter_map(|block| block.split("```").next());
    blocks.flat_map(str::lines).collect()
}

/// A line of a page in a shell that finds `egeria`.
pub fn shell(line: &str) -> Command {
    let mut path = Path::new(env!("CARGO_BIN_EXE_egeria"))
        .parent()
        .unwrap()
        .as_os_str()
        .to_owned();
    path.push(":");
    path.push(std::env::var_os("PATH").unwrap());
    let mut command = Command::new("sh");
    without_surroundings(&mut command);
    command.args(["-c", line]).env("PATH", path);
    command
}

/// The same as the user nobody.
pub fn as_nobody<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Command {
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(env!("CARGO_BIN_EXE_egeria"))
        .args(arguments);
    without_surroundings(&mut command);
    command
}

/// Runs it to its end.
#[track_caller]
pub fn run<S: AsRef<OsStr>>(arguments: impl IntoIterator<Item = S>) -> Ended {
    finish(egeria(arguments))
}

/// A directory in DRAM; when dropped, everything mounted below is taken away and it is removed.
pub struct Sandbox {
    pub root: PathBuf,
}

impl Sandbox {
    pub fn new() -> Sandbox {
        Sandbox::below(Path::new("/dev/shm"))
    }

    pub fn below(parent: &Path) -> Sandbox {
        let root = tempfile::Builder::new()
            .prefix("egeria-test-cli-")
            .tempdir_in(parent)
            .unwrap();
        Sandbox { root: root.keep() }
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// A new directory in it.
    pub fn directory(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        fs::create_dir(&path).unwrap();
        path
    }

    /// `NODE:PATH:SIZE` of a pool in it.
    pub fn pool(&self, node: u16, name: &str, size: &str) -> String {
        format!("{node}:{}:{size}", self.path(name).display())
    }

    /// Makes a volume of two pools, on nodes 0 and 1; the path of the first.
    #[track_caller]
    pub fn volume(&self, name: &str, size: &str) -> PathBuf {
        let (first, second) = (format!("{name}.0"), format!("{name}.1"));
        run([
            "mkfs",
            "--pool",
            &self.pool(0, &first, size),
            "--pool",
            &self.pool(1, &second, size),
        ])
        .ok();
        self.path(&first)
    }

    /// A file with this text.
    pub fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        for mount in mounts()
            .into_iter()
            .filter(|mount| mount.starts_with(&self.root))
        {
            let _ = Command::new("umount")
                .arg("-l")
                .arg(mount)
                .stderr(Stdio::null())
                .status();
        }
        let _ = fs::remove_dir_all(&self.root);
    }
}

/// A control group of the test's own with a program in it; both end when it is dropped.
pub struct Group {
    pub directory: PathBuf,
    /// Its name, in the top of the hierarchy.
    pub name: String,
    pub program: Background,
}

impl Group {
    /// A group whose name ends so; `None`, with a line that says why, where groups cannot be made.
    pub fn make(ending: &str, program: impl FnOnce() -> Background) -> Option<Group> {
        let Some(hierarchy) = egeria_proc::hierarchy() else {
            skip("control groups of version 2 are not mounted here");
            return None;
        };
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("egeria-test-{}-{number}{ending}", std::process::id());
        let directory = hierarchy.join(&name);
        if let Err(error) = fs::create_dir(&directory) {
            skip(format_args!("no control group can be made here: {error}"));
            return None;
        }
        let group = Group {
            directory,
            name,
            program: program(),
        };
        let members = group.directory.join("cgroup.procs");
        fs::write(members, group.program.id().to_string()).unwrap();
        Some(group)
    }

    /// The processes in it.
    pub fn processes(&self) -> Vec<u32> {
        let text = fs::read_to_string(self.directory.join("cgroup.procs")).unwrap();
        text.lines().map(|line| line.parse().unwrap()).collect()
    }

    /// Ends what is in it, and removes it.
    pub fn remove(&mut self) {
        self.program.end();
        let _ = fs::write(self.directory.join("cgroup.kill"), "1");
        eventually("the control group is empty", || {
            fs::remove_dir(&self.directory).is_ok() || !self.directory.exists()
        });
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Changes one byte of a pool where these bytes are.
pub fn damage(pool: &Path, bytes: &[u8]) -> bool {
    let mut content = fs::read(pool).unwrap();
    let found = content.windows(bytes.len()).position(|part| part == bytes);
    if let Some(at) = found {
        content[at] ^= 1;
        fs::write(pool, content).unwrap();
    }
    found.is_some()
}

/// Mount points of Egeria, innermost last.
pub fn mounts() -> Vec<PathBuf> {
    let mounts = egeria_mount::mounts().unwrap().into_iter();
    mounts.map(|mount| mount.directory).collect()
}

/// Everything `egeria run` may leave: scratch pools and mount points.
pub fn scratch_files() -> Vec<PathBuf> {
    let names = |directory: &str| -> Vec<PathBuf> {
        fs::read_dir(directory)
            .unwrap()
            .flatten()
            .map(|entry| entry.path())
            .collect()
    };
    let is_run = |path: &PathBuf| {
        path.file_name()
            .is_some_and(|name| name.as_bytes().starts_with(b"egeria-run-"))
    };
    let place = format!("egeria-run-of-{}", rustix::process::geteuid().as_raw());
    let own = format!("/dev/shm/{place}");
    let own = Path::new(&own).is_dir().then(|| names(&own));
    let places = own.into_iter().chain([names("/dev/shm"), names("/tmp")]);
    let found = places.flatten().filter(is_run);
    found.filter(|path| !path.ends_with(&place)).collect()
}

/// The preload library of this build, built when it is not there yet.
pub fn preload_library() -> &'static Path {
    static LIBRARY: OnceLock<PathBuf> = OnceLock::new();
    LIBRARY.get_or_init(egeria_harness::testing::preload_library)
}
