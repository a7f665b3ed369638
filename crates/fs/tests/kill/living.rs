//! Who lives is not reaped, however hard that is to see.

use crate::common::{FILE, Scratch};
use crate::stepping::{Death, End, kill_after, uncounted};
use egeria_fs::*;

/// Fork a process that holds an inode open, tells so and stays; it goes with its parent.
fn holder(volume: &Volume, ino: InodeNumber, first_thread_ends: bool) -> i32 {
    let mut pipe = [0; 2];
    // SAFETY: a valid out-parameter; this process has one thread, so the child may do what it likes.
    let process = unsafe {
        assert_eq!(libc::pipe(pipe.as_mut_ptr()), 0);
        libc::fork()
    };
    assert!(process >= 0, "{}", std::io::Error::last_os_error());
    if process == 0 {
        // SAFETY: asks to die with the parent; ends this thread alone.
        unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) };
        volume.after_fork_in_child();
        let opened = volume.open(ino, None).is_ok();
        let tell = move || {
            // SAFETY: an open descriptor and one byte.
            unsafe { libc::write(pipe[1], [u8::from(opened)].as_ptr().cast(), 1) };
            loop {
                std::thread::sleep(std::time::Duration::from_secs(1));
            }
        };
        if first_thread_ends {
            std::thread::spawn(tell);
            // SAFETY: as above; the other thread needs nothing of this one.
            unsafe { libc::syscall(libc::SYS_exit, 0) };
        }
        tell();
    }
    let mut opened = [0u8; 1];
    // SAFETY: an open descriptor and room for one byte.
    let told = unsafe { libc::read(pipe[0], opened.as_mut_ptr().cast(), 1) };
    assert_eq!(told, 1);
    assert_eq!(opened, [1]);
    process
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
