//! Who lives is not reaped, however hard that is to see.

use crate::common::{FILE, Scratch};
use crate::stepping::{Death, End, kill_after, uncounted};
use egeria_engine::*;
use egeria_harness::fork::Forked;
use rustix::process::{
    Resource, Rlimit, Signal, getrlimit, set_parent_process_death_signal, setrlimit,
};
use std::io::{PipeWriter, Read, Write, pipe};

/// What a forked process answers its parent by.
pub struct Parent(PipeWriter);

impl Parent {
    /// Once.
    pub fn answer(mut self, is_ready: bool) {
        let _ = self.0.write_all(&[u8::from(is_ready)]);
    }
}

/// Fork a process that dies with its parent, and wait until it answers that it is ready. The caller has one thread only.
pub fn fork_until_ready(child: impl FnOnce(Parent)) -> Forked {
    let (mut reader, writer) = pipe().expect("a pipe");
    let own_writer = writer.try_clone().expect("a descriptor");
    let process = Forked::run(|| {
        set_parent_process_death_signal(Some(Signal::KILL)).expect("prctl");
        child(Parent(own_writer));
        0
    });
    drop(writer);
    let mut is_ready = [0u8; 1];
    let bytes = reader.read(&mut is_ready).expect("a pipe");
    assert_eq!((bytes, is_ready), (1, [1]), "the child is not ready");
    process.expect("fork")
}

/// Fork a process that holds an inode open, and stays; its first thread may end before.
fn holder(volume: &Volume, ino: InodeNumber, first_thread_ends: bool) -> Forked {
    fork_until_ready(|parent| {
        volume.after_fork_in_child();
        let opened = volume.open(ino, None).is_ok();
        let stay = move || {
            parent.answer(opened);
            loop {
                std::thread::sleep(std::time::Duration::from_secs(1));
            }
        };
        if first_thread_ends {
            std::thread::spawn(stay);
            // SAFETY: ends this thread alone; the other one needs nothing of it.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
            unreachable!("the thread has ended");
        }
        stay();
    })
}

/// Unlink what another process holds open, reap, and see whether it was taken for dead.
fn survives(first_thread_ends: bool, reap: fn(&Volume)) {
    let scratch = Scratch::new(1, 16 << 20);
    let volume = scratch.attach();
    let ino = volume
        .create(InodeNumber::ROOT, b"held", &FILE)
        .unwrap()
        .ino;
    let process = holder(&volume, ino, first_thread_ends);
    volume.unlink(InodeNumber::ROOT, b"held").unwrap();
    if first_thread_ends {
        wait_for_zombie(process.id());
    }
    reap(&volume);
    assert!(volume.attributes(ino).is_ok(), "the living one was reaped");
    process.kill();
    volume.reap();
    assert_eq!(volume.attributes(ino), Err(Errno(libc::ESTALE)));
}

fn wait_for_zombie(process: i32) {
    let began = std::time::Instant::now();
    loop {
        let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).expect("stat");
        if stat.contains(") Z ") {
            return;
        }
        assert!(
            began.elapsed().as_secs() < 60,
            "the first thread has not ended: {stat}"
        );
        std::thread::yield_now();
    }
}

/// Reap with no descriptor to be had.
fn reap_without_descriptors(volume: &Volume) {
    let limit = getrlimit(Resource::Nofile);
    let none = Rlimit {
        current: Some(0),
        ..limit
    };
    setrlimit(Resource::Nofile, none).expect("setrlimit");
    volume.reap();
    setrlimit(Resource::Nofile, limit).expect("setrlimit");
}

/// A first thread that ended, a reaper that cannot read /proc, and the plain case.
pub fn are_not_reaped() {
    survives(false, |volume| volume.reap());
    survives(true, |volume| volume.reap());
    survives(false, reap_without_descriptors);
}

/// Nobody who dies while marking an inode takes off the mark of another, whose kernel has pages.
pub fn keep_their_marks() {
    let scratch = Scratch::new(1, 16 << 20);
    let volume = scratch.attach();
    let ino = volume
        .create(InodeNumber::ROOT, b"mapped", &FILE)
        .unwrap()
        .ino;
    let file = volume.open(ino, None).unwrap();
    volume.mark_kernel_cached(ino).unwrap();
    let mark = |volume: &Volume| {
        uncounted(|| volume.open(ino, None)).unwrap();
        volume.mark_kernel_cached(ino).unwrap();
    };
    for instructions in 0.. {
        let end = kill_after(&volume, Death::Instructions(instructions), &mark);
        volume.reap();
        assert!(
            volume.is_kernel_cached(file),
            "a death after {instructions} instructions took off another's mark"
        );
        if matches!(end, End::Finished(_)) {
            assert!(instructions > 20, "nothing was done");
            return;
        }
    }
}
