//! What the kernel tells of a thread: when it began, its name, its CPU time, its affinity.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use egeria_facts::{CpuSet, ThreadKey, printable_name};
use egeria_machine::CpuId;

const MASK_WORDS: usize = egeria_machine::MAX_CPUS / 64;

/// When a thread began, clock ticks since boot; `None` when it is gone.
///
/// With its id this names a thread for as long as the machine runs.
pub fn start_ticks(process_id: u32, thread_id: u32) -> Option<u64> {
    let text = std::fs::read_to_string(format!("/proc/{process_id}/task/{thread_id}/stat")).ok()?;
    field_after_name(&text, 22)
}

/// When a process began, in the same clock ticks; `None` when it is gone.
pub fn began(process_id: u32) -> Option<u64> {
    start_ticks(process_id, process_id)
}

/// Whether a thread is still the one it was when its start was looked up: ids come again.
pub fn is_still(key: ThreadKey) -> bool {
    start_ticks(key.process_id, key.thread_id) == Some(key.start_ticks)
}

/// Whether the process of a thread lives: one that began later has only its number.
pub fn is_process_of(thread: ThreadKey) -> bool {
    began(thread.process_id).is_some_and(|began| began <= thread.start_ticks)
}

/// A thread's user ids: real, effective, saved, of files; `None` when it is gone.
pub fn user_ids(process_id: u32, thread_id: u32) -> Option<[u32; 4]> {
    let text =
        std::fs::read_to_string(format!("/proc/{process_id}/task/{thread_id}/status")).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("Uid:"))?;
    let mut ids = line.split_ascii_whitespace().map(str::parse);
    let mut next = || ids.next()?.ok();
    Some([next()?, next()?, next()?, next()?])
}

/// The parent of a process; `None` when it is gone.
pub fn parent(process_id: u32) -> Option<u32> {
    let text = std::fs::read_to_string(format!("/proc/{process_id}/stat")).ok()?;
    u32::try_from(field_after_name(&text, 4)?).ok()
}

/// A numbered field of a stat line, counted from 1 as proc(5) does; the name before may hold anything.
fn field_after_name(text: &str, number: usize) -> Option<u64> {
    let (_, fields) = text.rsplit_once(')')?;
    fields
        .split_ascii_whitespace()
        .nth(number - 3)?
        .parse()
        .ok()
}

/// The thread's name, fit for a terminal; empty when it is gone.
pub fn name(process_id: u32, thread_id: u32) -> String {
    std::fs::read(format!("/proc/{process_id}/task/{thread_id}/comm"))
        .map(|bytes| printable_name(&bytes))
        .unwrap_or_default()
}

/// The process of a thread; `None` when it is gone.
pub fn process_of(thread_id: u32) -> Option<u32> {
    status_number(&format!("/proc/{thread_id}/status"), "Tgid:")
}

/// What a process and thread of another pid namespace, as (inode of the namespace, process id, thread id), are called in
/// this one; `None` when it is not a namespace inside this one, or they are gone.
pub fn ids_here((pid_namespace, process_id, thread_id): (u64, u32, u32)) -> Option<(u32, u32)> {
    use std::os::unix::fs::MetadataExt;
    let is_there = |process: &u32| {
        let namespace = std::fs::metadata(format!("/proc/{process}/ns/pid"));
        namespace.is_ok_and(|namespace| namespace.ino() == pid_namespace)
            && innermost_id(&format!("/proc/{process}/status")) == Some(process_id)
    };
    let process = processes().into_iter().find(is_there)?;
    let is_thread = |thread: &u32| {
        innermost_id(&format!("/proc/{process}/task/{thread}/status")) == Some(thread_id)
    };
    let thread = threads(process).into_iter().find(is_thread)?;
    Some((process, thread))
}

/// The id in the innermost pid namespace.
fn innermost_id(path: &str) -> Option<u32> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("NSpid:"))?;
    line.split_ascii_whitespace().last()?.parse().ok()
}

/// The first number in a line of a status file.
fn status_number(path: &str, name: &str) -> Option<u32> {
    let text = std::fs::read_to_string(path).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

/// All processes.
pub fn processes() -> Vec<u32> {
    numbers_in("/proc")
}

/// The CPU that a thread runs on or ran on last; `None` when it is gone.
pub fn last_cpu(process_id: u32, thread_id: u32) -> Option<CpuId> {
    let text = std::fs::read_to_string(format!("/proc/{process_id}/task/{thread_id}/stat")).ok()?;
    u16::try_from(field_after_name(&text, 39)?).ok().map(CpuId)
}

/// The threads of a process; none when it is gone.
pub fn threads(process_id: u32) -> Vec<u32> {
    numbers_in(&format!("/proc/{process_id}/task"))
}

fn numbers_in(directory: &str) -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Vec::new();
    };
    let names = entries.flatten().map(|entry| entry.file_name());
    names
        .filter_map(|name| name.to_str()?.parse().ok())
        .collect()
}

/// A thread's CPU time, from a file kept open: one read per look.
#[derive(Debug)]
pub struct CpuClock(File);

impl CpuClock {
    /// # Errors
    /// When the thread is gone or the kernel was built without schedstats.
    pub fn open(process_id: u32, thread_id: u32) -> io::Result<CpuClock> {
        File::open(format!("/proc/{process_id}/task/{thread_id}/schedstat")).map(CpuClock)
    }

    /// ns it ran so far; `None` when it is gone.
    pub fn read_ns(&self) -> Option<u64> {
        let mut text = [0; 96];
        let length = self.0.read_at(&mut text, 0).ok()?;
        let text = std::str::from_utf8(&text[..length]).ok()?;
        text.split_ascii_whitespace().next()?.parse().ok()
    }
}

/// How long a thread ran since it was last asked.
#[derive(Debug)]
pub(crate) struct CpuUse {
    clock: Option<CpuClock>,
    before_ns: u64,
}

impl CpuUse {
    /// From now on.
    pub(crate) fn begin(process_id: u32, thread_id: u32) -> CpuUse {
        let clock = CpuClock::open(process_id, thread_id).ok();
        let now_ns = clock.as_ref().and_then(CpuClock::read_ns);
        CpuUse {
            clock,
            before_ns: now_ns.unwrap_or(0),
        }
    }

    /// Since the last call, ns; 0 when the kernel does not say.
    pub(crate) fn since_last_ns(&mut self) -> u64 {
        let now_ns = self.clock.as_ref().and_then(CpuClock::read_ns);
        let now_ns = now_ns.unwrap_or(self.before_ns);
        let ran_ns = now_ns.saturating_sub(self.before_ns);
        self.before_ns = now_ns;
        ran_ns
    }
}

/// The CPUs the kernel lets a thread use now: its affinity within its cpuset.
///
/// # Errors
/// `ESRCH` when it is gone.
pub fn affinity(thread_id: u32) -> io::Result<CpuSet> {
    let mut mask = [0u64; MASK_WORDS];
    // The call itself, not libc's: it tells how much of the mask there is, and libc clears the rest.
    // SAFETY: the kernel fills at most the given bytes.
    let filled = unsafe {
        libc::syscall(
            libc::SYS_sched_getaffinity,
            thread_id as libc::pid_t,
            size_of_val(&mask),
            mask.as_mut_ptr(),
        )
    };
    let Ok(filled) = usize::try_from(filled) else {
        return Err(io::Error::last_os_error());
    };
    let words = mask.iter().enumerate().take(filled.div_ceil(8));
    let bits = words.flat_map(|(word, bits)| {
        let mut bits = *bits;
        std::iter::from_fn(move || {
            let bit = bits.trailing_zeros();
            bits &= bits.checked_sub(1)?;
            Some(CpuId((word * 64) as u16 + bit as u16))
        })
    });
    Ok(bits.collect())
}

/// Let a thread use these CPUs only.
///
/// # Errors
/// `ESRCH` when it is gone, `EPERM` when it is somebody else's, `EINVAL` when its cpuset has none of them.
pub fn set_affinity(thread_id: u32, cpus: &CpuSet) -> io::Result<()> {
    let mut mask = [0u64; MASK_WORDS];
    for cpu in cpus.iter() {
        mask[usize::from(cpu.0) / 64] |= 1 << (cpu.0 % 64);
    }
    // SAFETY: the kernel reads the given bytes.
    let answer = unsafe {
        libc::sched_setaffinity(
            thread_id as libc::pid_t,
            size_of_val(&mask),
            mask.as_ptr().cast(),
        )
    };
    if answer == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Time all CPUs were busy since boot, by CPU number, ns; empty when the kernel does not say.
pub fn busy_by_cpu_ns() -> Vec<(CpuId, u64)> {
    let Ok(text) = std::fs::read_to_string("/proc/stat") else {
        return Vec::new();
    };
    text.lines().filter_map(busy_of_line).collect()
}

fn busy_of_line(line: &str) -> Option<(CpuId, u64)> {
    const NS_PER_TICK: u64 = 10_000_000;
    let (name, fields) = line.strip_prefix("cpu")?.split_once(' ')?;
    let cpu = name.parse().ok()?;
    let ticks: Vec<u64> = fields
        .split_ascii_whitespace()
        .map_while(|field| field.parse().ok())
        .collect();
    // user nice system idle iowait irq softirq steal
    let idle = ticks.get(3)? + ticks.get(4)?;
    let all: u64 = ticks.iter().take(8).sum();
    Some((
        CpuId(cpu),
        all.saturating_sub(idle).saturating_mul(NS_PER_TICK),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_with_brackets_and_spaces_do_not_shift_fields() {
        let text = "7 (a) b (c)) S 3 7 7 0 -1 0 0 0 0 0 1 2 3 4 20 0 1 0 99 0";
        assert_eq!(field_after_name(text, 4), Some(3));
        assert_eq!(field_after_name(text, 22), Some(99));
        assert_eq!(field_after_name("nonsense", 22), None);
    }

    #[test]
    fn idle_and_waiting_time_is_not_busy() {
        let line = "cpu3 100 1 50 9000 900 2 3 4 0 0";
        assert_eq!(busy_of_line(line), Some((CpuId(3), 160 * 10_000_000)));
        assert_eq!(busy_of_line("cpu  1 2 3 4 5 6 7 8"), None);
        assert_eq!(busy_of_line("intr 1 2"), None);
    }

    #[test]
    fn an_affinity_set_is_the_one_read() {
        std::thread::spawn(|| {
            // SAFETY: no arguments.
            let own = unsafe { libc::gettid() } as u32;
            let before = affinity(own).unwrap();
            let one: CpuSet = before.iter().take(1).collect();
            set_affinity(own, &one).unwrap();
            assert_eq!(affinity(own).unwrap(), one);
            set_affinity(own, &before).unwrap();
            assert_eq!(affinity(own).unwrap(), before);
        })
        .join()
        .unwrap();
    }
}
