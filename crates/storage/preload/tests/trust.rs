//! Whom the library believes: needs root, who alone can be two users.

mod common;

use common::{Mounted, NOBODY, is_root, program};
use egeria_mount::MountOptions;
use rustix::process::Uid;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, ChildStdin, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// A program under the library that reads the files it is told.
struct Reader {
    child: Child,
    tell: ChildStdin,
    said: Receiver<String>,
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
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let (send, said) = channel();
        // A thread that reads, so that nobody waits for a line without a limit.
        std::thread::spawn(move || {
            lines
                .map_while(Result::ok)
                .try_for_each(|line| send.send(line))
        });
        Reader { child, tell, said }
    }

    fn read(&mut self, path: &Path) -> String {
        writeln!(self.tell, "{}", path.display()).unwrap();
        let line = self.said.recv_timeout(Duration::from_secs(60));
        let line = line.unwrap_or_else(|error| {
            panic!("the program did not answer for {}: {error}", path.display())
        });
        line.trim().to_owned()
    }

    fn end(mut self) {
        drop(self.tell);
        assert!(common::wait(&mut self.child).success());
    }
}

/// Real and effective user of this thread, and of those it starts.
fn become_user(own: u32, effective: u32) {
    // The credentials of this thread alone.
    let (own, effective) = (Uid::from_raw(own), Uid::from_raw(effective));
    rustix::thread::set_thread_res_uid(own, effective, None).unwrap();
}

/// A mount that nobody serves, as the kernel's list has it, with pools of another user.
fn mounted_by_nobody(pools_of: u32) -> Option<Mounted> {
    let made = std::thread::spawn(move || {
        let options = MountOptions {
            allow_other: true,
            ..MountOptions::default()
        };
        become_user(NOBODY, pools_of);
        Mounted::with_step(&options, || become_user(NOBODY, 0))
    });
    made.join().unwrap()
}

/// A mount whose kernel keeps no pages of files: else what the kernel opens for reading is read through it.
fn without_pages() -> Option<Mounted> {
    Mounted::with(&MountOptions {
        page_cache_bytes: Some(0),
        ..MountOptions::default()
    })
}

/// The device number of root's mount `roots`, from which `reader` has read a file.
fn read_through(roots: &Mounted, reader: &mut Reader) -> u64 {
    std::fs::write(roots.path("f"), "r").unwrap();
    let device = roots.path("f").metadata().unwrap().dev();
    let before = roots.volume.counters();
    assert_eq!(reader.read(&roots.path("f")), "r");
    roots.assert_served(&before, 10, "root's own mount");
    device
}

/// A mount that the user `nobody` serves, with the device number that root's mount `first` had until now.
fn nobodys_in_place_of(first: Mounted, reader: &mut Reader) -> Option<Mounted> {
    let mut roots = first;
    // The kernel gives the lowest number that is free, and other tests mount at the same time.
    for _ in 0..50 {
        let device = read_through(&roots, reader);
        // The program has root's volume attached, so it may still be asked about when its mount is gone.
        drop(roots);
        // With root's pools, so that nothing but the user who serves the mount speaks against it.
        let nobodys = mounted_by_nobody(0)?;
        std::fs::write(nobodys.path("f"), "n").unwrap();
        if nobodys.path("f").metadata().unwrap().dev() == device {
            return Some(nobodys);
        }
        drop(nobodys);
        roots = without_pages()?;
    }
    panic!("other mounts took the device number 50 times");
}

#[test]
fn a_mount_is_believed_for_the_process_that_serves_it() {
    if !is_root() {
        return;
    }
    let Some(roots) = without_pages() else { return };
    let mut reader = Reader::start(&roots);
    let Some(nobodys) = nobodys_in_place_of(roots, &mut reader) else {
        return;
    };
    let before = nobodys.volume.counters().direct_calls;
    assert_eq!(reader.read(&nobodys.path("f")), "n");
    let served = nobodys.volume.counters().direct_calls - before;
    assert_eq!(served, 0, "root's program believed nobody's mount");
    // What is remembered of nobody's mount does not hold for the next one either.
    drop(nobodys);
    let Some(roots) = without_pages() else { return };
    std::fs::write(roots.path("f"), "s").unwrap();
    let before = roots.volume.counters();
    assert_eq!(reader.read(&roots.path("f")), "s");
    roots.assert_served(&before, 10, "root's next mount");
    reader.end();
}

#[test]
fn a_user_s_mount_is_believed_by_his_programs_alone() {
    if !is_root() {
        return;
    }
    let Some(mounted) = mounted_by_nobody(NOBODY) else {
        return;
    };
    let run = |rule| {
        // Where nobody may not look, so the program is told where to go.
        let mut command = mounted.command("setpriv");
        command.current_dir("/").arg("--reuid=65534");
        command.args(["--regid=65534", "--clear-groups", "env", "-C"]);
        command.arg(mounted.point()).arg(program("trust")).arg(rule);
        let before = mounted.volume.counters().direct_calls;
        common::assert_ended_well(&common::finish(&mut command), rule);
        mounted.volume.counters().direct_calls - before
    };
    assert!(run("reads_a_file_of_its_user") >= 20);
    assert_eq!(run("reads_a_file_in_secret"), 0);
}

/// A rule on a mount that other users may use too.
fn keeps(rule: &str, direct: u64) {
    if !is_root() {
        return;
    }
    let options = MountOptions {
        allow_other: true,
        ..MountOptions::default()
    };
    if let Some(mounted) = Mounted::with(&options) {
        mounted.keeps("trust", rule, direct);
    }
}

#[test]
fn pools_go_with_the_rights() {
    keeps("pools_go_with_the_rights", 20);
}

#[test]
fn rights_that_stay_keep_the_pools() {
    keeps("rights_that_stay_keep_the_pools", 100);
}

#[test]
fn threads_in_calls_are_waited_for() {
    keeps("threads_in_calls_are_waited_for", 100);
}

#[test]
fn numbers_mean_what_they_meant_while_rights_go() {
    keeps("numbers_mean_what_they_meant_while_rights_go", 1);
}

#[test]
fn confined_programs_go_on() {
    keeps("confined_programs_go_on", 4);
}

#[test]
fn strictly_confined() {
    keeps("strictly_confined", 2);
}
