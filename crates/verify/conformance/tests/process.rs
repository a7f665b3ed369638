//! Children that cannot be killed hold nobody up.

use egeria_conformance::call;
use egeria_conformance::process::Child;
use egeria_harness::testing::{can_mount, is_root};
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use std::ffi::CString;
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::time::{Duration, Instant};

/// Operation numbers and sizes of the protocol.
const INIT: u32 = 26;
const REPLY_TO_INIT: usize = 64;
const HEADER: usize = 16;

/// A FUSE file system that takes requests and never answers: who waits for it cannot be killed.
struct Silent {
    point: tempfile::TempDir,
    device: File,
}

impl Silent {
    fn mount() -> Option<Silent> {
        if !is_root() || !can_mount() {
            return None;
        }
        let device = File::options().read(true).write(true).open("/dev/fuse");
        let silent = Silent {
            point: tempfile::tempdir().unwrap(),
            device: device.unwrap(),
        };
        let fd = silent.device.as_raw_fd();
        let options = format!("fd={fd},rootmode=40000,user_id=0,group_id=0");
        let (point, options) = (silent.path(), CString::new(options).unwrap());
        let flags = MountFlags::empty();
        mount("fuse", &point, "fuse", flags, options.as_c_str()).unwrap();
        silent.agree();
        Some(silent)
    }

    fn path(&self) -> CString {
        CString::new(self.point.path().as_os_str().as_bytes()).unwrap()
    }

    fn request(&self) -> Vec<u8> {
        let mut request = vec![0; 1 << 20];
        let bytes = (&self.device).read(&mut request).unwrap();
        request.truncate(bytes);
        request
    }

    /// The one answer that it gives: version 7.31, and nothing else.
    fn agree(&self) {
        let request = self.request();
        assert_eq!(request[4..8], INIT.to_ne_bytes());
        let mut reply = [0; HEADER + REPLY_TO_INIT];
        let bytes = reply.len() as u32;
        reply[..4].copy_from_slice(&bytes.to_ne_bytes());
        reply[8..16].copy_from_slice(&request[8..16]);
        reply[HEADER..HEADER + 4].copy_from_slice(&7u32.to_ne_bytes());
        reply[HEADER + 4..HEADER + 8].copy_from_slice(&31u32.to_ne_bytes());
        (&self.device).write_all(&reply).unwrap();
    }
}

impl Drop for Silent {
    fn drop(&mut self) {
        // By force: whoever still waits gets an error.
        let how = UnmountFlags::FORCE | UnmountFlags::DETACH;
        let _ = unmount(self.path(), how);
    }
}

#[test]
fn a_child_that_cannot_be_killed_is_left_behind() {
    let Some(silent) = Silent::mount() else {
        return;
    };
    let path = CString::new([silent.path().to_bytes(), b"/name"].concat()).unwrap();
    let begin = Instant::now();
    let child = Child::begin(|| {
        let _ = call::access(&path, libc::F_OK);
    });
    // From here on it waits for the answer, whatever happens.
    silent.request();
    let (words, status) = child.end(Duration::from_millis(500));
    assert!(words.contains("nor when it was killed"), "{words}");
    assert!(libc::WIFSIGNALED(status));
    assert!(begin.elapsed() < Duration::from_secs(30));
}

#[test]
fn a_child_that_hangs_is_killed() {
    let child = Child::begin(|| {
        loop {
            std::thread::sleep(Duration::from_secs(1));
        }
    });
    let (words, status) = child.end(Duration::from_millis(100));
    assert_eq!(words, "did not end within 100ms");
    assert_eq!(libc::WTERMSIG(status), libc::SIGKILL);
}

/// A grandchild that holds the pipe does not hold up who waits for the child.
#[test]
fn the_end_of_a_child_is_enough() {
    let begin = Instant::now();
    let child = Child::begin(|| {
        let (ready, tell) = call::pipe().unwrap();
        let grandchild = Child::begin(|| {
            // It outlives its parent.
            rustix::process::set_parent_process_death_signal(None).unwrap();
            call::write(tell.0, b"!").unwrap();
            std::thread::sleep(Duration::from_secs(20));
        });
        assert_eq!(call::read(ready.0, &mut [0]), Ok(1));
        std::mem::forget(grandchild);
    });
    let (words, status) = child.end(Duration::from_secs(60));
    assert_eq!((words.as_str(), status), ("", 0));
    assert!(begin.elapsed() < Duration::from_secs(15));
}
