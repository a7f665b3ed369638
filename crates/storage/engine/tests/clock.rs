//! A clock that jumps: times are what it says, and nothing else depends on it.
//!
//! This program's own `clock_gettime` stands in for libc's, for the whole process.

mod common;

use common::*;
use egeria_engine::*;
use std::sync::atomic::{AtomicI64, Ordering};

const ROOT: InodeNumber = InodeNumber::ROOT;
const NS: i64 = 1_000_000_000;

/// Seconds that wall clocks are off.
static OFF_S: AtomicI64 = AtomicI64::new(0);

/// What libc's does, with wall clocks off.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
unsafe extern "C" fn clock_gettime(clock: libc::clockid_t, now: *mut libc::timespec) -> i32 {
    // SAFETY: the caller's promise.
    unsafe {
        let answer = libc::syscall(libc::SYS_clock_gettime, clock, now) as i32;
        if answer == 0 && matches!(clock, libc::CLOCK_REALTIME | libc::CLOCK_REALTIME_COARSE) {
            (*now).tv_sec += OFF_S.load(Ordering::Relaxed);
        }
        answer
    }
}

fn wall_s() -> i64 {
    // SAFETY: all zeros are a valid timespec, filled by the call.
    unsafe {
        let mut now: libc::timespec = std::mem::zeroed();
        clock_gettime(libc::CLOCK_REALTIME_COARSE, &mut now);
        now.tv_sec
    }
}

fn is_now(time_ns: i64) -> bool {
    (time_ns.div_euclid(NS) - wall_s()).abs() <= 2
}

fn change_all(volume: &Volume, turn: usize) -> Attributes {
    let found = volume.lookup(ROOT, b"f").expect("lookup");
    let file = volume.open(found.ino, None).expect("open");
    volume.append(file, b"one more line\n").expect("append");
    volume.close(found.ino);
    let name = format!("n{turn}");
    volume.create(ROOT, name.as_bytes(), &FILE).expect("create");
    let root = volume.attributes(ROOT).expect("attributes");
    assert!(is_now(root.mtime_ns), "{root:?}");
    volume.attributes(found.ino).expect("attributes")
}

#[test]
fn a_clock_that_jumps_changes_times_and_nothing_else() {
    let scratch = Scratch::new(1, 8 << 20);
    let volume = scratch.attach();
    volume.create(ROOT, b"f", &FILE).expect("create");
    const DAY_S: i64 = 86_400;
    // Ahead, back to before the file was made, before the epoch, and beyond what 32 bits hold.
    let jumps = [0, 400 * DAY_S, -DAY_S, -40_000 * DAY_S, 80_000 * DAY_S, 0];
    for (turn, off_s) in jumps.into_iter().enumerate() {
        OFF_S.store(off_s, Ordering::Relaxed);
        let shown = change_all(&volume, turn);
        assert!(
            is_now(shown.mtime_ns) && is_now(shown.ctime_ns),
            "{off_s} s off: {shown:?}"
        );
        // Who lives is not taken for dead, and who is dead is seen.
        volume.reap();
        assert_eq!(volume.attributes(shown.ino), Ok(shown));
    }
    drop(volume);
    let volume = scratch.attach();
    let found = volume.lookup(ROOT, b"f").expect("lookup");
    assert_eq!(found.size_bytes, jumps.len() as u64 * 14);
    assert_eq!(names(&volume, ROOT).len(), jumps.len() + 3);
    drop(volume);
    scratch.assert_clean();
}
