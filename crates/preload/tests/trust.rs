//! Whom the library believes: needs root, who alone can be two users.

mod common;

use common::{Mounted, NOBODY, is_root, program};
use egeria_mount::MountOptions;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};

/// A program under the library that reads the files it is told.
struct Reader {
    child: Child,
    tell: ChildStdin,
    said: BufReader<ChildStdout>,
}

impl Reader {
    fn start(mounted: &Mounted) -> Reader {
        let mut command = mounted.command(program("trust"));
        command.current_dir("/").arg("reads_what_it_is_told");
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let tell = child.stdin.take().unwrap();
        let said = BufReader::new(child.stdout.take().unwrap());
        Reader { child, tell, said }
    }

    fn read(&mut self, path: &Path) -> String {
        writeln!(self.tell, "{}", path.display()).unwrap();
        let mut line = String::new();
        self.said.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    fn end(mut self) {
        drop(self.tell);
        assert!(common::wait(&mut self.child).success());
    }
}

/// A mount that nobody serves, as the kernel's list has it. Its pools are root's, so that nothing but the
/// user who serves the mount speaks against it.
fn mounted_by_nobody() -> Option<Mounted> {
    let made = std::thread::spawn(|| {
        // SAFETY: the credentials of this thread alone, which mounts and ends.
        let changed = unsafe { libc::syscall(libc::SYS_setresuid, NOBODY, -1, -1) };
        assert_eq!(changed, 0);
        Mounted::with(&MountOptions {
            allow_other: true,
            ..MountOptions::default()
        })
    });
    made.join().unwrap()
}

#[test]
fn a_mount_is_believed_for_who_serves_it_not_for_its_device_number() {
    if !is_root() {
        return;
    }
    let Some(roots) = Mounted::new() else { return };
    std::fs::write(roots.path("f"), "r").unwrap();
    let device = roots.path("f").metadata().unwrap().dev();
    let mut reader = Reader::start(&roots);
    let before = roots.volume.counters();
    assert_eq!(reader.read(&roots.path("f")), "r");
    roots.assert_served(&before, 10, "root's own mount");
    // The program has root's volume attached, so it may still be asked about when its mount is gone.
    drop(roots);
    let Some(nobodys) = mounted_by_nobody() else {
        return;
    };
    std::fs::write(nobodys.path("f"), "n").unwrap();
    if nobodys.path("f").metadata().unwrap().dev() != device {
        eprintln!("SKIPPED, PROVES NOTHING: another mount took the device number meanwhile");
        return;
    }
    let before = nobodys.volume.counters().direct_calls;
    assert_eq!(reader.read(&nobodys.path("f")), "n");
    let served = nobodys.volume.counters().direct_calls - before;
    assert_eq!(served, 0, "root's program believed nobody's mount");
    // What is remembered of nobody's mount does not hold for the next one either.
    drop(nobodys);
    let Some(roots) = Mounted::new() else { return };
    std::fs::write(roots.path("f"), "s").unwrap();
    let before = roots.volume.counters();
    assert_eq!(reader.read(&roots.path("f")), "s");
    roots.assert_served(&before, 10, "root's next mount");
    reader.end();
}
