//! A mount served by a process of its own, which can die.

use egeria_engine::{AttachMode, AttachOptions, CreateOptions, PoolRequest, Volume, create_volume};
use egeria_mount::{LeaseTiming, MountOptions, serve, unmount_lazily};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};
use std::ffi::OsStr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Names what the process serves.
const POOL: &str = "EGERIA_TEST_POOL";
const POINT: &str = "EGERIA_TEST_POINT";

/// Not a test: what [`MountProcess::start`] runs.
#[test]
#[ignore = "serves for other tests"]
fn serves_until_killed() {
    let Ok(pool) = std::env::var(POOL) else {
        return;
    };
    let point = std::env::var(POINT).unwrap();
    let options = MountOptions {
        leases: LeaseTiming::AtOnce,
        ..MountOptions::default()
    };
    let volume = attach(pool.as_ref());
    serve(volume.clone(), point.as_ref(), &options, || ()).unwrap();
    volume.detach();
}

fn attach(pool: &Path) -> Arc<Volume> {
    Volume::attach(pool, AttachMode::CreateOrJoin, &AttachOptions::default()).unwrap()
}

pub struct MountProcess {
    child: Child,
    volume: Arc<Volume>,
    point: TempDir,
    _pools: TempDir,
}

impl MountProcess {
    /// `None`, loudly, on a machine without FUSE.
    pub fn start() -> Option<MountProcess> {
        if !egeria_harness::testing::can_mount() {
            return None;
        }
        let pools = crate::common::temporary("/dev/shm");
        let point = crate::common::temporary("/tmp");
        let pool = pools.path().join("pool0");
        let request = PoolRequest {
            node: 0,
            path: pool.clone(),
            bytes: Some(64 << 20),
        };
        create_volume(&[request], &CreateOptions::default()).unwrap();
        let volume = attach(&pool);
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "deaths::mount::serves_until_killed"])
            .stdout(Stdio::null())
            .env(POOL, &pool)
            .env(POINT, point.path())
            .spawn()
            .unwrap();
        let served = MountProcess {
            child,
            volume,
            point,
            _pools: pools,
        };
        let deadline = Instant::now() + Duration::from_secs(60);
        while !served.is_mounted() {
            assert!(Instant::now() < deadline, "nothing was mounted");
            std::thread::sleep(Duration::from_millis(5));
        }
        Some(served)
    }

    fn is_mounted(&self) -> bool {
        let mounts = egeria_mount::mounts().unwrap();
        mounts.iter().any(|mount| mount.directory == self.point())
    }

    pub fn point(&self) -> &Path {
        self.point.path()
    }

    /// The volume, attached here, too.
    pub fn volume(&self) -> &Volume {
        &self.volume
    }

    /// A command under the library.
    pub fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .env("LD_PRELOAD", crate::common::library())
            .stdin(Stdio::null());
        command
    }

    /// Stop it; returns when all its threads are stopped.
    pub fn stop(&self) {
        let child = Pid::from_child(&self.child);
        // Not waited for yet.
        kill_process(child, Signal::STOP).unwrap();
        waitpid(Some(child), WaitOptions::UNTRACED).unwrap();
    }

    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for MountProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let outcome = unmount_lazily(self.point());
        if !std::thread::panicking() {
            outcome.unwrap();
        }
    }
}
