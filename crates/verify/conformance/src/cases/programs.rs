//! `execve`, what programs inherit, and everyday programs.

use super::words::*;
use crate::call;
use std::ffi::CStr;
use std::process::{Command, Stdio};

cases!("programs":
    busy_programs, programs_inherit_the_position, programs_do_not_get_what_closes,
    standard_streams_on_files, whole_trees_are_copied, scripts_run, execution_needs_its_bit,
    setid_programs_change_users,
);

/// A program of the system, copied here.
pub(super) fn program(path: &CStr) {
    let found = std::fs::read("/bin/true").unwrap_or_else(|_| skip("needs /bin/true"));
    file(path, &found);
    chmod(path, 0o755).unwrap();
}

/// Run a program without arguments; its status.
pub(super) fn execute(path: &CStr) -> Answer<i32> {
    let (read_end, write_end) = pipe().unwrap();
    fcntl(write_end.0, F_SETFD, FD_CLOEXEC).unwrap();
    let child = Child::begin(|| {
        let error = call::execv(path);
        put(write_end.0, &error.0.to_ne_bytes());
    });
    drop(write_end);
    let mut error = [0; 4];
    let failed = read(read_end.0, &mut error).unwrap() == 4;
    let (_, status) = child.end(std::time::Duration::from_secs(20));
    if failed {
        Err(Errno(i32::from_ne_bytes(error)))
    } else {
        Ok(status)
    }
}

/// A copied program that runs until this is dropped.
pub(super) struct Running(std::process::Child);

impl Running {
    pub(super) fn begin(path: &CStr) -> Running {
        let found = std::fs::read("/bin/sleep").unwrap_or_else(|_| skip("needs /bin/sleep"));
        file(path, &found);
        chmod(path, 0o755).unwrap();
        let path = format!("./{}", path.to_str().expect("a plain name"));
        let mut command = std::process::Command::new(path);
        // `spawn` comes back when the program has replaced the copy of this one.
        Running(command.arg("60").spawn().expect("a copied program runs"))
    }

    /// Panics with how it ended, if it has.
    pub(super) fn check(&mut self) {
        let ended = self.0.try_wait().expect("a child");
        assert_eq!(ended, None, "the copied program ended");
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn busy_programs() {
    program(c"p");
    assert_eq!(execute(c"p"), Ok(0));
    let writer = open(c"p", O_WRONLY, 0).unwrap();
    fails(ETXTBSY, execute(c"p"));
    drop(writer);
    chmod(c"p", 0o644).unwrap();
    fails(EACCES, execute(c"p"));
    chmod(c"p", 0o755).unwrap();
    fails(EACCES, execute(c"."));
    file(c"nonsense", b"\x01\x02\x03");
    chmod(c"nonsense", 0o755).unwrap();
    fails(ENOEXEC, execute(c"nonsense"));
    assert_eq!(execute(c"p"), Ok(0));
    let mut running = Running::begin(c"r");
    let bytes = stat(c"r").unwrap().st_size;
    for flags in [O_WRONLY, O_RDWR, O_RDONLY | O_TRUNC] {
        let opened = open(c"r", flags, 0);
        running.check();
        fails(ETXTBSY, opened);
        assert_eq!(stat(c"r").unwrap().st_size, bytes, "it is not changed");
    }
    drop(running);
    drop(open(c"r", O_RDWR, 0).unwrap());
}

fn programs_inherit_the_position() {
    let f = make(c"f");
    put(f.0, b"first\nsecond\nthird\n");
    lseek(f.0, 6, SEEK_SET).unwrap();
    let share = || Stdio::from(dup(f.0).unwrap().into_owned());
    let output = Command::new("dd")
        .args(["bs=7", "count=1", "status=none"])
        .stdin(share())
        .output()
        .unwrap();
    assert_same(&output.stdout, b"second\n");
    let mut room = [0; 5];
    assert_eq!(read(f.0, &mut room), Ok(5));
    assert_same(&room, b"third");
    lseek(f.0, 0, SEEK_END).unwrap();
    let status = Command::new("sh")
        .args(["-c", "echo fourth; echo fifth"])
        .stdout(share())
        .status()
        .unwrap();
    assert!(status.success());
    put(f.0, b"sixth\n");
    holds(c"f", b"first\nsecond\nthird\nfourth\nfifth\nsixth\n");
}

fn programs_do_not_get_what_closes() {
    let (kept, closed) = (
        make(c"f"),
        open(c"g", O_CREAT | O_RDWR | O_CLOEXEC, 0o644).unwrap(),
    );
    let test = format!(
        "test -e /proc/self/fd/{} && ! test -e /proc/self/fd/{}",
        kept.0, closed.0
    );
    assert!(
        Command::new("sh")
            .args(["-c", &test])
            .status()
            .unwrap()
            .success()
    );
    put(closed.0, b"here still");
    holds(c"g", b"here still");
}

fn standard_streams_on_files() {
    let out = make(c"out");
    let fd = out.0;
    apart(move || {
        dup2(fd, 1).unwrap();
        println!("through the standard output");
        let status = Command::new("echo").arg("of a program").status().unwrap();
        assert!(status.success());
        println!("and again");
    });
    holds(
        c"out",
        b"through the standard output\nof a program\nand again\n",
    );
}

fn whole_trees_are_copied() {
    mkdir(c"tree", 0o750).unwrap();
    mkdir(c"tree/deep", 0o755).unwrap();
    file(c"tree/deep/f", &pattern(1, 70_000));
    symlink(c"deep/f", c"tree/l").unwrap();
    link(c"tree/deep/f", c"tree/again").unwrap();
    mknod(c"tree/p", S_IFIFO | 0o640, 0).unwrap();
    let run = |program: &str, arguments: &[&str]| {
        let output = Command::new(program).args(arguments).output().unwrap();
        assert!(
            output.status.success(),
            "{program}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
    };
    run("cp", &["-a", "tree", "copy"]);
    run("tar", &["-cf", "tree.tar", "tree"]);
    mkdir(c"out", 0o755).unwrap();
    run("tar", &["-xf", "tree.tar", "-C", "out"]);
    for root in ["copy", "out/tree"] {
        let at = |path: &str| name(format!("{root}/{path}"));
        holds(&at("deep/f"), &pattern(1, 70_000));
        assert_eq!(readlink(&at("l"), 100), Ok(b"deep/f".to_vec()));
        assert_eq!(stat(&at("again")).unwrap().st_nlink, 2);
        assert_eq!((mode(&name(root)), mode(&at("p"))), (0o750, 0o640));
        assert_eq!(
            times(&stat(&at("deep")).unwrap())[1] / 1_000_000_000,
            times(&stat(c"tree/deep").unwrap())[1] / 1_000_000_000
        );
    }
    run("rm", &["-r", "tree", "copy", "out"]);
}

fn scripts_run() {
    file(c"script", b"#!/bin/sh\necho \"$0 $1\" > written\n");
    chmod(c"script", 0o755).unwrap();
    assert!(
        Command::new("./script")
            .arg("word")
            .status()
            .unwrap()
            .success()
    );
    holds(c"written", b"./script word\n");
    file(c"without", b"#!/none/such\n");
    chmod(c"without", 0o755).unwrap();
    assert_eq!(execute(c"without"), Err(Errno(ENOENT)));
}

fn execution_needs_its_bit() {
    program(c"p");
    for (bits, expected) in [
        (0o755, Ok(0)),
        (0o711, Ok(0)),
        (0o744, Err(Errno(EACCES))),
        (0o644, Err(Errno(EACCES))),
    ] {
        chmod(c"p", bits).unwrap();
        as_user(ALICE, ALICE, &[], || {
            assert_eq!(execute(c"p"), expected, "{bits:o}")
        });
    }
}

/// Unless the mount says no (`nosuid`).
fn setid_programs_change_users() {
    needs_root();
    let shell = std::fs::read("/usr/bin/id").unwrap_or_else(|_| skip("needs /usr/bin/id"));
    file(c"id", &shell);
    chown(c"id", BOB, BOB).unwrap();
    chmod(c"id", 0o4755).unwrap();
    as_user(ALICE, ALICE, &[], || {
        let output = std::process::Command::new("./id")
            .arg("-u")
            .output()
            .unwrap();
        assert_eq!(
            String::from_utf8_lossy(&output.stdout).trim(),
            BOB.to_string()
        );
    });
}
