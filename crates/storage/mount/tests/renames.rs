//! Directories that others rename past the mount: descriptors, working directories and paths of them go on.

use crate::child::Served;
use crate::common::errno;
use egeria_engine::{InodeNumber, RenameMode};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// A directory `a/d` with a file and a directory in it, held open here; `b` beside `a`.
struct Moving {
    held: File,
    directory: u64,
    a: InodeNumber,
    b: InodeNumber,
    // Last, to be unmounted when nothing is open.
    served: Served,
}

impl Moving {
    /// `None` without FUSE.
    fn new() -> Option<Moving> {
        let served = Served::new()?;
        fs::create_dir_all(served.path("a/d/sub")).unwrap();
        fs::write(served.path("a/d/file"), "content").unwrap();
        fs::create_dir(served.path("b")).unwrap();
        let number = |path: &str| fs::metadata(served.path(path)).unwrap().ino();
        Some(Moving {
            held: File::open(served.path("a/d")).unwrap(),
            directory: number("a/d"),
            a: InodeNumber(number("a")),
            b: InodeNumber(number("b")),
            served,
        })
    }

    fn number(&self, path: &str) -> io::Result<u64> {
        fs::metadata(self.served.path(path)).map(|metadata| metadata.ino())
    }

    /// Rename `a/d` past the mount; to where, and the path of it.
    fn move_to(&self, parent: InodeNumber) -> &'static str {
        let replace = RenameMode::Replace;
        let volume = &self.served.volume;
        volume.rename(self.a, b"d", parent, b"e", replace).unwrap();
        if parent == self.b { "b/e" } else { "a/e" }
    }

    fn move_back(&self, parent: InodeNumber) {
        let replace = RenameMode::Replace;
        let volume = &self.served.volume;
        volume.rename(parent, b"e", self.a, b"d", replace).unwrap();
    }

    /// The directory by its descriptor, whatever its name is.
    fn by_descriptor(&self, name: &str) -> PathBuf {
        Path::new("/proc/self/fd")
            .join(self.held.as_raw_fd().to_string())
            .join(name)
    }

    /// All that programs do in a directory they hold.
    #[track_caller]
    fn use_it(&self) {
        assert_eq!(self.held.metadata().unwrap().ino(), self.directory);
        assert_eq!(fs::read_dir(self.by_descriptor("")).unwrap().count(), 2);
        let read = fs::read_to_string(self.by_descriptor("file")).unwrap();
        assert_eq!(read, "content");
        let (new, renamed) = (self.by_descriptor("new"), self.by_descriptor("renamed"));
        fs::create_dir(&new).unwrap();
        fs::rename(&new, &renamed).unwrap();
        fs::remove_dir(&renamed).unwrap();
        fs::write(&new, "x").unwrap();
        fs::hard_link(&new, &renamed).unwrap();
        fs::remove_file(&new).unwrap();
        fs::rename(&renamed, self.by_descriptor("sub/deeper")).unwrap();
        fs::remove_file(self.by_descriptor("sub/deeper")).unwrap();
    }

    /// What a shell does whose working directory it is; what it writes.
    #[track_caller]
    fn work_in_it(&self, script: &str) -> String {
        let mut shell = Command::new("sh");
        shell.args(["-ec", script]);
        shell.current_dir(self.by_descriptor(""));
        let output = shell.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }
}

#[test]
fn directories_renamed_past_the_mount_can_be_used_as_before() {
    let Some(moving) = Moving::new() else { return };
    for parent in [moving.a, moving.b] {
        // What the kernel learns first: nothing, that the old name is gone, or what the new one is.
        for first in ["", "old", "new"] {
            let path = moving.move_to(parent);
            match first {
                "old" => assert_eq!(errno(moving.number("a/d")), libc::ENOENT),
                "new" => assert_eq!(moving.number(path).unwrap(), moving.directory),
                _ => {}
            }
            moving.use_it();
            let script = "cat file && mkdir new && rmdir new && ls sub";
            assert_eq!(moving.work_in_it(script), "content");
            assert_eq!(errno(moving.number("a/d")), libc::ENOENT);
            assert_eq!(moving.number(path).unwrap(), moving.directory);
            moving.use_it();
            let here = moving.work_in_it("/bin/pwd && stat -c %i ..");
            let whole = moving.served.path(path);
            assert_eq!(here, format!("{}\n{}\n", whole.display(), parent.0));
            moving.move_back(parent);
            assert_eq!(errno(moving.number(path)), libc::ENOENT);
            assert_eq!(moving.number("a/d").unwrap(), moving.directory);
        }
    }
}

/// The kernel cannot correct what it remembers of a directory while names change where that was. Only the look-up of
/// the new name fails then, and only as long.
#[test]
fn a_directory_moved_out_of_a_busy_one_is_stale_briefly() {
    let Some(moving) = Moving::new() else { return };
    let over = AtomicBool::new(false);
    let mut stale = 0;
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let name = moving.served.path(&format!("a/busy{thread}"));
            let over = &over;
            scope.spawn(move || {
                while !over.load(Ordering::Relaxed) {
                    fs::write(&name, "").unwrap();
                    fs::remove_file(&name).unwrap();
                }
            });
        }
        for _ in 0..200 {
            moving.move_to(moving.b);
            match moving.number("b/e") {
                Ok(found) => assert_eq!(found, moving.directory),
                Err(error) => {
                    assert_eq!(error.raw_os_error(), Some(libc::ESTALE), "{error}");
                    stale += 1;
                }
            }
            assert_eq!(errno(moving.number("a/d")), libc::ENOENT);
            assert_eq!(moving.held.metadata().unwrap().ino(), moving.directory);
            moving.move_back(moving.b);
        }
        over.store(true, Ordering::Relaxed);
    });
    eprintln!("{stale} of 200 look-ups of the new name were stale");
    moving.move_to(moving.b);
    assert_eq!(moving.number("b/e").unwrap(), moving.directory);
    moving.use_it();
}
