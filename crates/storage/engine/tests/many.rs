//! Many of everything: processes that attach and leave, files open at once.

mod common;

use common::*;
use egeria_engine::*;
use egeria_harness::fork::Forked;
use std::time::Duration;

const ROOT: InodeNumber = InodeNumber::ROOT;

/// More than there are slots, of processes and of threads.
const VISITORS: u64 = 4500;

/// Start this test again, alone in a process of one thread, which may fork.
fn alone(test: &str) -> bool {
    const ALONE: &str = "EGERIA_TEST_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return true;
    }
    let status = std::process::Command::new(std::env::current_exe().expect("path of the test"))
        .args(["--exact", test, "--nocapture", "--test-threads=1"])
        .env(ALONE, "1")
        .status()
        .expect("start a process");
    assert!(status.success());
    false
}

/// A child that does something and ends without giving anything back; the worst that still returns. There is one thread
/// only, so it may do what it likes.
fn visit(body: impl FnOnce() -> bool) -> Forked {
    Forked::run_well(body).expect("fork")
}

fn ended_well(child: Forked) {
    assert!(child.wait().success(), "a visitor failed");
}

#[test]
fn thousands_of_processes_attach_and_leave_and_nothing_leaks() {
    if !alone("thousands_of_processes_attach_and_leave_and_nothing_leaks") {
        return;
    }
    let scratch = Scratch::new(1, 16 << 20);
    let volume = scratch.attach();
    let kept = volume.create(ROOT, b"kept", &FILE).expect("create").ino;
    let work = |number: u64| {
        volume.after_fork_in_child();
        let Ok(file) = volume.open(kept, None) else {
            return false;
        };
        let appended = volume.append(file, &number.to_le_bytes()).is_ok();
        // A third leaves in order, a third is gone with all it holds, a third with an open file that has
        // lost its name.
        match number % 3 {
            0 => volume.close(kept),
            1 => {}
            _ => {
                let made = volume.create_unnamed(ROOT, &FILE);
                let opened = made.and_then(|made| volume.open(made.ino, None));
                let written = opened.and_then(|file| volume.write(file, 0, &[1; 5000]));
                return appended && written.is_ok();
            }
        }
        appended
    };
    for number in 0..VISITORS {
        ended_well(visit(|| work(number)));
        // As a mount does twice a second.
        if number % 256 == 0 {
            volume.reap();
        }
    }
    volume.reap();
    let file = volume.open(kept, None).expect("open");
    let mut all = vec![0; VISITORS as usize * 8 + 1];
    assert_eq!(volume.read(file, 0, &mut all), Ok(VISITORS as usize * 8));
    for (number, bytes) in (0..VISITORS).zip(all.chunks_exact(8)) {
        assert_eq!(bytes, number.to_le_bytes());
    }
    volume.close(kept);
    let space = volume.space(None);
    drop(volume);
    let report = check_volume(&scratch.pools[0], false, &mut |_, _| {}).expect("check");
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
    assert_eq!(space.blocks - space.free_blocks, report.used_blocks);
    assert_eq!(space.inodes - space.free_inodes, report.inodes);
}

#[test]
fn many_processes_at_once_attach_and_leave() {
    if !alone("many_processes_at_once_attach_and_leave") {
        return;
    }
    let scratch = Scratch::new(1, 16 << 20);
    drop(scratch.attach());
    // Nobody stays: each attaches anew, the first makes the session, the last ends it.
    for _ in 0..6 {
        let children: Vec<_> = (0..60)
            .map(|number| {
                visit(|| {
                    let volume = scratch.attach();
                    let name = format!("n{number}");
                    let made = volume.create(ROOT, name.as_bytes(), &FILE);
                    std::thread::sleep(Duration::from_millis(number % 7));
                    made.is_ok() && volume.unlink(ROOT, name.as_bytes()).is_ok()
                })
            })
            .collect();
        children.into_iter().for_each(ended_well);
    }
    scratch.assert_clean();
}

#[test]
fn ten_thousand_files_are_open_at_once() {
    const FILES: u64 = 10_000;
    let scratch = Scratch::new(1, 160 << 20);
    let volume = scratch.attach();
    let before = volume.space(None);
    let files: Vec<FileReference> = (0..FILES)
        .map(|number| {
            let name = format!("n{number}");
            let made = volume.create(ROOT, name.as_bytes(), &FILE).expect("create");
            let file = volume.open(made.ino, None).expect("open");
            volume.write(file, 0, &number.to_le_bytes()).expect("write");
            // Without a name they live until they are closed.
            volume.unlink(ROOT, name.as_bytes()).expect("unlink");
            file
        })
        .collect();
    for (number, file) in (0..FILES).zip(&files) {
        let mut bytes = [0; 9];
        assert_eq!(volume.read(*file, 0, &mut bytes), Ok(8));
        assert_eq!(bytes[..8], number.to_le_bytes());
    }
    for file in &files {
        volume.close(file.ino());
    }
    let after = volume.space(None);
    assert_eq!(after.free_inodes, before.free_inodes);
    drop(volume);
    let report = check_volume(&scratch.pools[0], false, &mut |_, _| {}).expect("check");
    assert!(report.findings.is_empty(), "{:#?}", report.findings);
    assert_eq!(after.blocks - after.free_blocks, report.used_blocks);
    assert_eq!(report.inodes, 1);
}
