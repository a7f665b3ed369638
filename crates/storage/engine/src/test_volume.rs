//! A volume for tests inside the crate.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Signal, getpid, kill_process};

use crate::fork::Forked;
use crate::*;

/// A new volume of one pool in this directory, and the pool's path.
pub(crate) fn new_volume(directory: &tempfile::TempDir) -> (Arc<Volume>, PathBuf) {
    let path = directory.path().join("pool");
    let pool = PoolRequest {
        node: 0,
        path: path.clone(),
        bytes: Some(16 << 20),
    };
    create_volume(&[pool], &CreateOptions::default()).expect("mkfs");
    let options = AttachOptions::default();
    let volume = Volume::attach(&path, AttachMode::CreateOrJoin, &options).expect("attach");
    (volume, path)
}

/// The findings of a check of the volume with this pool. Waits until child processes made by other tests are gone,
/// because they hold the locks of the pools that were open here.
pub(crate) fn findings(pool: &Path) -> Vec<Finding> {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        match check_volume(pool, false, &mut |_, _| {}) {
            Ok(report) => return report.findings,
            Err(error) if error.errno == libc::EBUSY && Instant::now() < deadline => {
                std::thread::sleep(Duration::from_millis(5));
            }
            Err(error) => panic!("{error}"),
        }
    }
}

pub(crate) const FILE: NewInode = NewInode::of_root(libc::S_IFREG | 0o600);

/// This process stops until it is continued.
pub(crate) fn stop() {
    let _ = kill_process(getpid(), Signal::STOP);
}

/// A child that runs a function on the volume, reports whether it worked, stops, and ends when it is continued.
pub(crate) struct Stopped(Forked);

impl Stopped {
    pub(crate) fn in_child<'a, T>(
        volume: &'a Volume,
        body: impl FnOnce(&'a Volume) -> Outcome<T>,
    ) -> Stopped {
        let child = Forked::run(|| {
            volume.after_fork_in_child();
            let done = body(volume);
            if done.is_ok() {
                stop();
            }
            // Nothing is given back that is held.
            std::mem::forget(done);
            1
        });
        let stopped = Stopped(child.expect("fork"));
        stopped.wait_for_stop();
        stopped
    }

    /// Let a child that stopped within its work go on, and wait until it stops again.
    pub(crate) fn go_on(&self) {
        self.0.signal(Signal::CONT);
        self.wait_for_stop();
    }

    fn wait_for_stop(&self) {
        let status = self.0.wait_for_stop();
        assert!(
            status.stopped_signal().is_some(),
            "the child failed: {status}"
        );
    }

    pub(crate) fn kill(&self) {
        self.0.kill();
    }
}
