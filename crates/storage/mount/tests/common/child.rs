//! A mount served by a process of its own. A process must not touch mappings of files whose
//! mount it serves: the fault may hold a lock of the address space that the serving thread
//! needs to answer it.

#![allow(dead_code)] // Every test file uses a part.

use crate::common::{Mounted, Place, can_mount, eventually};
use egeria_engine::{AttachMode, AttachOptions, FileReference, InodeNumber, Volume};
use egeria_mount::{LeaseTiming, MountOptions, serve, unmount};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

/// Not a test: what [`serve_in_child`] runs.
#[test]
#[ignore = "serves for other tests"]
fn serves_until_unmounted_or_killed() {
    let Ok(pool) = std::env::var("EGERIA_TEST_POOL") else {
        return;
    };
    let point = std::env::var("EGERIA_TEST_POINT").unwrap();
    let threads = std::env::var("EGERIA_TEST_THREADS").unwrap();
    let options = MountOptions {
        auto_unmount: std::env::var("EGERIA_TEST_AUTO").unwrap() == "true",
        threads: threads.parse().unwrap(),
        leases: LeaseTiming::AtOnce,
        page_cache_bytes: std::env::var("EGERIA_TEST_PAGE_CACHE")
            .ok()
            .map(|bytes| bytes.parse().unwrap()),
        ..MountOptions::default()
    };
    let attach = AttachOptions::default();
    let volume = Volume::attach(pool.as_ref(), AttachMode::CreateOrJoin, &attach).unwrap();
    serve(volume.clone(), point.as_ref(), &options, || ()).unwrap();
    volume.detach();
}

pub fn mounted(point: &Path) -> bool {
    let mounts = egeria_mount::mounts().unwrap();
    mounts.iter().any(|mount| mount.directory == point)
}

/// Serve with the options' threads, `auto_unmount` and page cache.
pub fn serve_in_child(place: &Place, options: &MountOptions) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    if let Some(bytes) = options.page_cache_bytes {
        command.env("EGERIA_TEST_PAGE_CACHE", bytes.to_string());
    }
    let child = command
        .args([
            "--ignored",
            "--exact",
            "child::serves_until_unmounted_or_killed",
        ])
        .stdout(Stdio::null())
        .env("EGERIA_TEST_POOL", place.pool(0))
        .env("EGERIA_TEST_POINT", place.point())
        .env("EGERIA_TEST_THREADS", options.threads.to_string())
        .env("EGERIA_TEST_AUTO", options.auto_unmount.to_string())
        .spawn()
        .unwrap();
    eventually("the child mounts", || mounted(place.point()));
    child
}

/// Waits for the end of a child, which must be soon; panics, and kills it, when it does not come.
fn end_of(child: &mut Child) {
    for _ in 0..6000 {
        if child.try_wait().unwrap().is_some() {
            return;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(
        std::thread::panicking(),
        "the process that served the mount has not ended 60 s after it was unmounted"
    );
}

pub fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// A volume served by a child, and attached here by an equal.
pub struct Served {
    pub volume: Arc<Volume>,
    child: Child,
    place: Place,
}

impl Served {
    /// `None` without FUSE.
    pub fn with(options: &MountOptions) -> Option<Served> {
        if !can_mount() {
            return None;
        }
        let place = Place::with_pools_of(64 << 20);
        let child = serve_in_child(&place, options);
        let volume = place.attach(AttachMode::Join);
        Some(Served {
            volume,
            child,
            place,
        })
    }

    pub fn new() -> Option<Served> {
        Served::with(&MountOptions::default())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.place.point().join(name)
    }

    /// As [`Mounted::engine_file`].
    pub fn engine_file(&self, name: &str) -> (InodeNumber, FileReference) {
        Mounted::engine_file_of(&self.volume, &self.path(name))
    }
}

impl Served {
    /// Kill the serving process; its mount point stays.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Stop the serving process. Each of its threads stops when it is its turn.
    pub fn stop(&self) {
        self.send(rustix::process::Signal::STOP);
        let threads = format!("/proc/{}/task", self.child.id());
        let is_stopped = |thread: std::io::Result<std::fs::DirEntry>| {
            let stat = std::fs::read_to_string(thread.unwrap().path().join("stat"));
            stat.is_ok_and(|stat| stat.contains(") T "))
        };
        eventually("all threads are stopped", || {
            std::fs::read_dir(&threads).unwrap().all(is_stopped)
        });
    }

    /// Let it go on.
    pub fn go_on(&self) {
        self.send(rustix::process::Signal::CONT);
    }

    fn send(&self, signal: rustix::process::Signal) {
        let process = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(process, signal).unwrap();
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let outcome = unmount(self.place.point());
        if outcome.is_err() {
            let _ = self.child.kill();
        }
        end_of(&mut self.child);
        if !std::thread::panicking() {
            outcome.unwrap();
        } else if outcome.is_err() {
            let _ = unmount(self.place.point());
        }
    }
}
