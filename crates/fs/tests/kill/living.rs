//! Who lives is not reaped, however hard that is to see.

use crate::common::{FILE, Scratch};
use crate::stepping::{Death, End, kill_after, uncounted};
use egeria_fs::*;

/// What a forked process answers its parent by.
#[derive(Clone, Copy)]
pub struct Parent(i32);

impl Parent {
    /// Once.
    pub fn answer(self, is_ready: bool) {
        // SAFETY: an open descriptor and one byte.
        unsafe { libc::write(self.0, [u8::from(is_ready)].as_ptr().cast(), 1) };
    }
}

/// Fork a process that dies with its parent, and wait until it answers that it is ready. The caller has one thread only.
pub fn fork_until_ready(child: impl FnOnce(Parent)) -> i32 {
    let mut pipe = [0; 2];
    // SAFETY: a valid out-parameter; this process has one thread, so the child may do what it likes.
    let process = unsafe {
        assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
        libc::fork()
    };
    assert!(process >= 0, "{}", std::io::Error::last_os_error());
    if process == 0 {
        // SAFETY: asks to die with the parent.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        child(Parent(pipe[1]));
        // SAFETY: ends the child, which must not go on as its parent.
        unsafe { libc::_exit(0) };
    }
    let mut is_ready = [0u8; 1];
    // SAFETY: descriptors of ours, and room for one byte.
    let bytes = unsafe {
        libc::close(pipe[1]);
        let bytes = libc::read(pipe[0], is_ready.as_mut_ptr().cast(), 1);
        libc::close(pipe[0]);
        bytes
    };
    assert_eq!((bytes, is_ready), (1, [1]), "the child is not ready");
    process
}

/// Fork a process that holds an inode open, and stays; its first thread may end before.
fn holder(volume: &Volume, ino: InodeNumber, first_thread_ends: bool) -> i32 {
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
        wait_for_zombie(process);
    }
    reap(&volume);
    assert!(volume.attributes(ino).is_ok(), "the living one was reaped");
    // SAFETY: our own child, not yet waited for.
    unsafe {
        libc::kill(process, libc::SIGKILL);
        libc::waitpid(process, std::ptr::null_mut(), 0);
    }
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
    // SAFETY: a valid structure in and out.
    unsafe {
        let mut limit: libc::rlimit = std::mem::zeroed();
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
        let none = libc::rlimit {
            rlim_cur: 0,
            ..limit
        };
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &none), 0);
        volume.reap();
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
    }
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
