//! A volume for tests inside the crate.

use std::path::PathBuf;
use std::sync::Arc;

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

pub(crate) const FILE: NewInode = NewInode {
    mode: libc::S_IFREG | 0o600,
    uid: 0,
    gid: 0,
    rdev: 0,
};

/// A child that does something with the volume, says whether it worked, stops, and ends when it is continued.
pub(crate) struct Stopped(i32);

impl Stopped {
    pub(crate) fn in_child<'a, T>(
        volume: &'a Volume,
        body: impl FnOnce(&'a Volume) -> Outcome<T>,
    ) -> Stopped {
        // SAFETY: the child uses the volume and system calls, and leaves without running what is the parent's.
        let child = unsafe { libc::fork() };
        if child == 0 {
            volume.after_fork_in_child();
            let done = body(volume);
            // SAFETY: plain system calls.
            unsafe {
                if done.is_ok() {
                    libc::raise(libc::SIGSTOP);
                }
                libc::_exit(1);
            }
        }
        let stopped = Stopped(child);
        let status = stopped.wait(libc::WUNTRACED);
        assert!(libc::WIFSTOPPED(status), "the child failed: {status:#x}");
        stopped
    }

    /// Let one that stopped within its work go on, and wait until it stops again.
    pub(crate) fn go_on(&self) {
        // SAFETY: our own child, not waited for yet.
        unsafe { libc::kill(self.0, libc::SIGCONT) };
        let status = self.wait(libc::WUNTRACED);
        assert!(libc::WIFSTOPPED(status), "the child failed: {status:#x}");
    }

    fn wait(&self, how: i32) -> i32 {
        let mut status = 0;
        // SAFETY: our own child, a valid out-parameter.
        let waited = unsafe { libc::waitpid(self.0, &mut status, how) };
        assert_eq!(waited, self.0, "{}", std::io::Error::last_os_error());
        status
    }

    pub(crate) fn kill(&self) {
        // SAFETY: our own child, not waited for yet.
        unsafe { libc::kill(self.0, libc::SIGKILL) };
        self.wait(0);
    }
}
