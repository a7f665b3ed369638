//! The CPU of the thread that sent a request, for what it writes is new data of that CPU's node.
//!
//! The kernel does not say it with the request, so it is read from `/proc`. That takes some microseconds. So each serving
//! thread remembers a few callers for a while.

use crate::state::remembered::Remembered;
use std::time::Duration;

/// How long an answer is used. A thread that is migrated goes on writing to its old node for this time at most.
const VALID: Duration = Duration::from_millis(10);

/// Position of `processor` in a `stat` file, counted from the field behind the name.
const PROCESSOR: usize = 36;

thread_local! {
    static SEEN: Remembered<Option<usize>> = const { Remembered::new(VALID) };
}

/// The CPU on which a thread ran last. `None`: the request is of no thread (0), or the thread is not seen here: it has
/// ended, or is in another pid namespace.
pub(crate) fn cpu_of(thread_id: u32) -> Option<usize> {
    if thread_id == 0 {
        return None;
    }
    SEEN.with(|seen| seen.of(thread_id, || Some(look(thread_id))))
        .flatten()
}

/// The file of the thread alone: that of a process sums up all its threads.
fn look(thread_id: u32) -> Option<usize> {
    let stat = std::fs::read(format!("/proc/{thread_id}/task/{thread_id}/stat")).ok()?;
    cpu_in(&stat)
}

/// The name in the file may hold any bytes, also spaces and parentheses.
fn cpu_in(stat: &[u8]) -> Option<usize> {
    let name_ends = memchr::memrchr(b')', stat)?;
    let fields = std::str::from_utf8(&stat[name_ends + 1..]).ok()?;
    fields.split_ascii_whitespace().nth(PROCESSOR)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::thread::{CpuSet, gettid, sched_getaffinity, sched_setaffinity};

    #[test]
    fn a_bound_thread_is_found_on_its_cpu() {
        let all = sched_getaffinity(None).unwrap();
        let allowed: Vec<usize> = (0..CpuSet::MAX_CPU)
            .filter(|cpu| all.is_set(*cpu))
            .collect();
        for cpu in allowed {
            let bound = move || {
                let mut only = CpuSet::new();
                only.set(cpu);
                sched_setaffinity(None, &only).unwrap();
                cpu_of(gettid().as_raw_nonzero().get() as u32)
            };
            assert_eq!(std::thread::spawn(bound).join().unwrap(), Some(cpu));
        }
    }

    #[test]
    fn no_thread_is_on_no_cpu() {
        assert_eq!(cpu_of(0), None);
        assert_eq!(cpu_of(u32::MAX), None);
    }

    #[test]
    fn the_cpu_is_found_whatever_the_thread_is_called() {
        let fields = |name: &str| {
            let before = " 1".repeat(PROCESSOR - 1);
            format!("7 ({name}) S{before} 13 0 0\n").into_bytes()
        };
        for name in ["dd", "a b", "a) S 1 (b", ""] {
            assert_eq!(cpu_in(&fields(name)), Some(13), "{name}");
        }
        assert_eq!(cpu_in(b"7 (dd) S 1 2"), None);
        assert_eq!(cpu_in(b""), None);
    }
}
