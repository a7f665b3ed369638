//! A volume really mounted by this process, and C programs run on it under the library.
#![allow(dead_code, unused_imports)] // Every test file uses a part.

mod build;

pub use build::{library, program, shared_object, static_program, thread_sanitized};
pub use egeria_harness::testing::is_root;
use egeria_harness::testing::skip;

use egeria_engine::{
    AttachMode, AttachOptions, Counters, CreateOptions, PoolRequest, Volume, create_volume,
};
use egeria_harness::testing::eventually;
use egeria_mount::{MountHandle, MountOptions, spawn};
use std::ffi::OsString;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(300);

/// The user who may nothing.
pub const NOBODY: u32 = 65534;

/// A directory of its own in another.
pub fn temporary(directory: &str) -> TempDir {
    let mut builder = tempfile::Builder::new();
    builder
        .prefix("egeria-preload-")
        .tempdir_in(directory)
        .unwrap()
}

/// A mounted volume of its own; unmounted and removed when dropped.
pub struct Mounted {
    pub volume: Arc<Volume>,
    handle: Option<MountHandle>,
    point: TempDir,
    pools: TempDir,
}

impl Mounted {
    /// Two pools under /dev/shm. `None`, loudly, on a machine without FUSE.
    pub fn new() -> Option<Mounted> {
        Mounted::with(&MountOptions::default())
    }

    /// The same, mounted in another way.
    pub fn with(options: &MountOptions) -> Option<Mounted> {
        Mounted::with_step(options, || ())
    }

    /// The same, with a step between attaching and mounting.
    pub fn with_step(options: &MountOptions, step: impl FnOnce()) -> Option<Mounted> {
        // The thread may be another user's. That user gets the device by the helper.
        if !Path::new("/dev/fuse").exists() {
            skip("there is no /dev/fuse on this machine");
            return None;
        }
        let (pools, point) = (temporary("/dev/shm"), temporary("/tmp"));
        let path = |node: u16| pools.path().join(format!("pool{node}"));
        let requests: Vec<PoolRequest> = (0..2)
            .map(|node| PoolRequest {
                node,
                path: path(node),
                bytes: Some(128 << 20),
            })
            .collect();
        create_volume(&requests, &CreateOptions::default()).unwrap();
        let attach = AttachOptions::default();
        let volume = Volume::attach(&path(0), AttachMode::CreateOrJoin, &attach).unwrap();
        step();
        let handle = spawn(volume.clone(), point.path(), options).unwrap();
        Some(Mounted {
            volume,
            handle: Some(handle),
            point,
            pools,
        })
    }

    pub fn point(&self) -> &Path {
        self.point.path()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.point().join(name)
    }

    /// A command in the mount's root, under the library; `EGERIA_TEST_UNDER` names a command to run it under.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        // Alone: a mount served under valgrind would wait for the child that valgrind starts.
        let under = std::env::var("EGERIA_TEST_UNDER").unwrap_or_default();
        let mut words = under.split_whitespace();
        let mut command = match words.next() {
            Some(checker) => self.bare_command(checker),
            None => self.bare_command(&program),
        };
        if !under.is_empty() {
            command.args(words).arg(program);
        }
        command.env("LD_PRELOAD", library());
        command
    }

    /// The same without the library.
    pub fn bare_command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.point())
            .env_remove("LD_PRELOAD")
            .stdin(Stdio::null());
        command
    }

    /// Run a rule of a test program under the library: it must end well, and at least `direct` of its
    /// calls must have been served past the kernel (a rule that holds in the kernel proves nothing).
    pub fn keeps(&self, program_name: &str, rule: &str, direct: u64) {
        let before = self.volume.counters();
        let output = finish(self.command(program(program_name)).arg(rule));
        assert_ended_well(&output, rule);
        self.assert_served(&before, direct, rule);
    }

    /// Unmounted, the volume has nothing that a check finds.
    pub fn assert_sound(mut self) {
        let pools = std::mem::replace(&mut self.pools, temporary("/tmp"));
        drop(self);
        let pool = pools.path().join("pool0");
        // A child of another test that has not executed its program yet has the volume's descriptors, too.
        let mut checked = None;
        eventually("no child holds the volume", || {
            let report = egeria_engine::check_volume(&pool, false, &mut |_, _| {});
            let is_held = matches!(&report, Err(error) if error.errno == libc::EBUSY);
            checked = Some(report);
            !is_held
        });
        let report = checked.expect("a check").unwrap();
        assert!(report.findings.is_empty(), "{:#?}", report.findings);
    }

    pub fn assert_served(&self, before: &Counters, direct: u64, what: &str) {
        let served = self.volume.counters().direct_calls - before.direct_calls;
        assert!(
            served >= direct,
            "{what}: {served} calls served directly, at least {direct} expected"
        );
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let Some(handle) = self.handle.take() else {
            return;
        };
        let outcome = handle.unmount();
        if !std::thread::panicking() {
            outcome.unwrap();
        }
    }
}

/// One rule on a fresh mount, which makes so many direct calls and hardly any requests: for attaching, and for refused
/// calls, which the kernel makes again.
pub fn cost_no_requests(program_name: &str, rule: &str, direct: u64) {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let before = mounted.volume.counters();
    let mut command = mounted.command(program(program_name));
    assert_ended_well(&finish(command.arg(rule)), rule);
    mounted.assert_served(&before, direct, rule);
    let requests = mounted.volume.counters().mount_requests - before.mount_requests;
    assert!(requests < 100, "{rule}: {requests} requests");
}

/// One rule on a fresh mount.
pub fn keeps(program_name: &str, rule: &str, direct: u64) {
    if let Some(mounted) = Mounted::new() {
        mounted.keeps(program_name, rule, direct);
    }
}

pub fn assert_ended_well(output: &Output, what: &str) {
    assert!(
        output.status.success(),
        "{what}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Run to the end; a program that hangs is killed and fails the test.
pub fn finish(command: &mut Command) -> Output {
    let mut child = command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let stdout = collect(child.stdout.take().unwrap());
    let stderr = collect(child.stderr.take().unwrap());
    let status = wait(&mut child);
    Output {
        status,
        stdout: stdout.join().unwrap(),
        stderr: stderr.join().unwrap(),
    }
}

fn collect(mut pipe: impl Read + Send + 'static) -> JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut text = Vec::new();
        pipe.read_to_end(&mut text).unwrap();
        text
    })
}

/// Wait for a child, not for ever.
pub fn wait(child: &mut Child) -> ExitStatus {
    let end = Instant::now() + LIMIT;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > end {
            child.kill().unwrap();
            panic!("a program did not end within {LIMIT:?}: {:?}", child.wait());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Several libraries for `LD_PRELOAD`.
pub fn preload(libraries: &[&Path]) -> OsString {
    let mut list = OsString::new();
    for library in libraries {
        list.push(library);
        list.push(":");
    }
    list
}
