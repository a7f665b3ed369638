//! What the kernel tells of a thread: when it began, its name, its CPU time, its affinity.

use std::fs::File;
use std::io;
use std::os::unix::fs::DirEntryExt;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use egeria_facts::{CpuSet, ProcessKey, ThreadKey, printable_name};
use egeria_machine::CpuId;
use procfs::FromRead;
use procfs::process::Status;

const NS_PER_TICK: u64 = 10_000_000;
const MASK_WORDS: usize = egeria_machine::MAX_CPUS / 64;

/// When a thread began, clock ticks since boot; `None` when it is gone.
///
/// With its id this names a thread for as long as the machine runs.
pub fn start_ticks(process_id: u32, thread_id: u32) -> Option<u64> {
    StatLine::of_thread(process_id, thread_id)?.start_ticks()
}

/// When a process began, in the same clock ticks; `None` when it is gone.
pub fn began(process_id: u32) -> Option<u64> {
    start_ticks(process_id, process_id)
}

/// The process that has this id now.
pub fn process(process_id: u32) -> Option<ProcessKey> {
    let start_ticks = began(process_id)?;
    Some(ProcessKey {
        process_id,
        start_ticks,
    })
}

/// Whether a process is still there: ids are reused.
pub fn lives(key: ProcessKey) -> bool {
    process(key.process_id) == Some(key)
}

/// Whether a thread is still the same as when its start was looked up: ids are reused.
pub fn is_still(key: ThreadKey) -> bool {
    start_ticks(key.process_id, key.thread_id) == Some(key.start_ticks)
}

/// Whether the process of a thread lives. A process that began later only has the same id.
pub fn is_process_of(thread: ThreadKey) -> bool {
    began(thread.process_id).is_some_and(|began| began <= thread.start_ticks)
}

/// A thread's user ids: real, effective, saved, of files; `None` when it is gone.
pub fn user_ids(process_id: u32, thread_id: u32) -> Option<[u32; 4]> {
    let status = status(&format!("/proc/{process_id}/task/{thread_id}/status"))?;
    Some([status.ruid, status.euid, status.suid, status.fuid])
}

/// The parent of a process; `None` when it is gone.
pub fn parent(process_id: u32) -> Option<u32> {
    StatLine::of_process(process_id)?.field(StatLine::PARENT)
}

/// For how long the threads of a process ran so far, all together, to a hundredth of a second; `None` when it is gone.
pub fn ran(process_id: u32) -> Option<Duration> {
    const MS_PER_TICK: u64 = 10;
    let line = StatLine::of_process(process_id)?;
    let ticks =
        [StatLine::USER_TIME, StatLine::SYSTEM_TIME].map(|number| line.field::<u64>(number));
    let [Some(user), Some(system)] = ticks else {
        return None;
    };
    Some(Duration::from_millis(
        user.saturating_add(system).saturating_mul(MS_PER_TICK),
    ))
}

/// Whether a process is a thread of the kernel's own; `None` when it is gone.
pub fn is_of_kernel(process_id: u32) -> Option<bool> {
    /// `PF_KTHREAD` of the kernel's include/linux/sched.h.
    const OF_KERNEL: u64 = 0x0020_0000;
    let flags: u64 = StatLine::of_process(process_id)?.field(StatLine::FLAGS)?;
    Some(flags & OF_KERNEL != 0)
}

/// Whether a thread has ended, even if its status was not collected yet or other threads of its process run on.
pub fn has_ended(process_id: u32, thread_id: u32) -> bool {
    let line = StatLine::of_thread(process_id, thread_id);
    let state = line.and_then(|line| line.field::<char>(StatLine::STATE));
    state.is_none_or(|state| matches!(state, 'Z' | 'X' | 'x'))
}

/// A thread at one moment.
pub struct Now {
    /// When it began, as [`start_ticks`].
    pub start_ticks: u64,
    /// The CPU that it runs on or ran on last.
    pub cpu: CpuId,
    /// The name, as [`name`] returns it; it changes when another program is executed.
    pub name: String,
    /// The parent of its process.
    pub parent: u32,
}

impl Now {
    /// `None` when it is gone.
    pub fn of(process_id: u32, thread_id: u32) -> Option<Now> {
        let line = StatLine::of_thread(process_id, thread_id)?;
        Some(Now {
            start_ticks: line.start_ticks()?,
            cpu: line.last_cpu()?,
            name: printable_name(line.name()?),
            parent: line.field(StatLine::PARENT)?,
        })
    }
}

/// How many threads a process has, and for how long children ran that it has waited for.
pub struct Family {
    pub threads: usize,
    /// ns, to a hundredth of a second.
    pub waited_ns: u64,
}

impl Family {
    /// `None` when it is gone.
    pub fn of(process_id: u32) -> Option<Family> {
        // The first thread's file has it as well, without sums over all threads.
        let line = StatLine::of_thread(process_id, process_id)?;
        let ticks = |number| line.field::<u64>(number);
        let waited =
            ticks(StatLine::WAITED_USER_TIME)?.saturating_add(ticks(StatLine::WAITED_SYSTEM_TIME)?);
        Some(Family {
            threads: line.field(StatLine::THREADS)?,
            waited_ns: waited.saturating_mul(NS_PER_TICK),
        })
    }
}

/// A line of a stat file. Read for every thread in every window, so it is not parsed as a whole.
struct StatLine {
    bytes: [u8; StatLine::MAX_BYTES],
    length: usize,
}

impl StatLine {
    /// 52 numbers and a name are shorter.
    const MAX_BYTES: usize = 2048;
    /// Fields as proc(5) numbers them.
    const STATE: usize = 3;
    const PARENT: usize = 4;
    const FLAGS: usize = 9;
    const USER_TIME: usize = 14;
    const SYSTEM_TIME: usize = 15;
    const WAITED_USER_TIME: usize = 16;
    const WAITED_SYSTEM_TIME: usize = 17;
    const THREADS: usize = 20;
    const START: usize = 22;
    const CPU: usize = 39;

    fn of_process(process_id: u32) -> Option<StatLine> {
        StatLine::read(&format!("/proc/{process_id}/stat"))
    }

    fn of_thread(process_id: u32, thread_id: u32) -> Option<StatLine> {
        StatLine::read(&format!("/proc/{process_id}/task/{thread_id}/stat"))
    }

    fn read(path: &str) -> Option<StatLine> {
        let file = File::open(path).ok()?;
        let mut bytes = [0; StatLine::MAX_BYTES];
        let length = file.read_at(&mut bytes, 0).ok()?;
        Some(StatLine { bytes, length })
    }

    /// The name, field 2, may hold any bytes: what is behind its last parenthesis is numbers.
    fn field<N: std::str::FromStr>(&self, number: usize) -> Option<N> {
        let line = self.bytes.get(..self.length)?;
        let name_end = line.iter().rposition(|byte| *byte == b')')?;
        let behind = std::str::from_utf8(&line[name_end + 1..]).ok()?;
        let mut fields = behind.split_ascii_whitespace();
        fields.nth(number - StatLine::STATE)?.parse().ok()
    }

    fn name(&self) -> Option<&[u8]> {
        let line = self.bytes.get(..self.length)?;
        let begin = line.iter().position(|byte| *byte == b'(')? + 1;
        let end = line.iter().rposition(|byte| *byte == b')')?;
        line.get(begin..end)
    }

    fn start_ticks(&self) -> Option<u64> {
        self.field(StatLine::START)
    }

    fn last_cpu(&self) -> Option<CpuId> {
        self.field(StatLine::CPU).map(CpuId)
    }
}

/// A status file. The name in it may hold any bytes, where the parser takes text only.
fn status(path: &str) -> Option<Status> {
    let bytes = std::fs::read(path).ok()?;
    Status::from_read(String::from_utf8_lossy(&bytes).as_bytes()).ok()
}

/// The thread's name, fit for a terminal; empty when it is gone.
pub fn name(process_id: u32, thread_id: u32) -> String {
    std::fs::read(format!("/proc/{process_id}/task/{thread_id}/comm"))
        .map(|bytes| printable_name(&bytes))
        .unwrap_or_default()
}

/// The process of a thread; `None` when it is gone.
pub fn process_of(thread_id: u32) -> Option<u32> {
    u32::try_from(status(&format!("/proc/{thread_id}/status"))?.tgid).ok()
}

/// The ids in this pid namespace of a process and thread of another one, given as (inode of the namespace, process id,
/// thread id). `None` when that is not a namespace inside this one, or they are gone.
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
    u32::try_from(*status(path)?.nspid?.last()?).ok()
}

pub fn processes() -> Vec<u32> {
    numbers_in("/proc")
}

/// A process, and the inode of its directory: another process of the same number has another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Listed {
    pub number: u32,
    pub inode: u64,
}

/// All processes that the kernel shows.
pub fn listed() -> Vec<Listed> {
    listed_in("/proc").collect()
}

/// The CPU that a thread runs on or ran on last; `None` when it is gone.
pub fn last_cpu(process_id: u32, thread_id: u32) -> Option<CpuId> {
    StatLine::of_thread(process_id, thread_id)?.last_cpu()
}

/// The threads of a process; none when it is gone.
pub fn threads(process_id: u32) -> Vec<u32> {
    numbers_in(&format!("/proc/{process_id}/task"))
}

fn numbers_in(directory: &str) -> Vec<u32> {
    listed_in(directory).map(|listed| listed.number).collect()
}

fn listed_in(directory: &str) -> impl Iterator<Item = Listed> {
    let entries = std::fs::read_dir(directory).into_iter();
    entries.flatten().flatten().filter_map(|entry| {
        let number = entry.file_name().to_str()?.parse().ok()?;
        let inode = entry.ino();
        Some(Listed { number, inode })
    })
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
pub struct CpuUse {
    process_id: u32,
    thread_id: u32,
    kept: Option<Kept>,
    before_ns: u64,
}

/// A clock that stays open. Such files use at most a quarter of the open files allowed for this process, and
/// [`MAX_KEPT`]. With more threads, the files of the others are opened for each look.
#[derive(Debug)]
struct Kept(CpuClock);

static KEPT: AtomicUsize = AtomicUsize::new(0);
/// Each takes some 5 KiB of the kernel's memory.
const MAX_KEPT: usize = 4096;

/// Clocks that may stay open.
pub fn max_kept() -> usize {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let limit = limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(0));
    (limit / 4).min(MAX_KEPT)
}

/// Raises this process's limit of open files to the maximum: each watched thread needs one. Child processes started
/// later inherit that.
pub fn keep_many_open() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let more = Rlimit {
        current: limit.maximum,
        maximum: limit.maximum,
    };
    // Without it threads are still looked at, at a higher cost.
    let _ = setrlimit(Resource::Nofile, more);
}

impl Kept {
    fn open(process_id: u32, thread_id: u32, max: usize) -> Option<Kept> {
        if KEPT.fetch_add(1, Ordering::Relaxed) >= max {
            KEPT.fetch_sub(1, Ordering::Relaxed);
            return None;
        }
        let clock = CpuClock::open(process_id, thread_id).map(Kept);
        if clock.is_err() {
            KEPT.fetch_sub(1, Ordering::Relaxed);
        }
        clock.ok()
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        KEPT.fetch_sub(1, Ordering::Relaxed);
    }
}

impl CpuUse {
    /// Begins to count now.
    pub fn begin(process_id: u32, thread_id: u32) -> CpuUse {
        CpuUse::keeping(process_id, thread_id, max_kept())
    }

    /// Begins to count now, with a file that stays open unless this process keeps `max_kept` already.
    pub fn keeping(process_id: u32, thread_id: u32, max_kept: usize) -> CpuUse {
        let mut clock = CpuUse {
            process_id,
            thread_id,
            kept: Kept::open(process_id, thread_id, max_kept),
            before_ns: 0,
        };
        clock.since_last_ns();
        clock
    }

    /// Running time since the last call, ns, of the same thread: an open file never refers to another thread. `None`
    /// when its file is not kept open.
    pub fn of_same_ns(&mut self) -> Option<Option<u64>> {
        let Kept(clock) = self.kept.as_ref()?;
        let now_ns = clock.read_ns();
        let ran_ns = now_ns.map(|now_ns| now_ns.saturating_sub(self.before_ns));
        self.before_ns = now_ns.unwrap_or(self.before_ns);
        Some(ran_ns)
    }

    /// Running time since the last call, ns; 0 when the kernel does not report it.
    pub fn since_last_ns(&mut self) -> u64 {
        let now_ns = match &self.kept {
            Some(Kept(clock)) => clock.read_ns(),
            None => CpuClock::open(self.process_id, self.thread_id)
                .ok()
                .and_then(|clock| clock.read_ns()),
        };
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
/// `ESRCH` when it is gone, `EPERM` when it is another user's, `EINVAL` when its cpuset has none of them.
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
    use egeria_harness::testing::skip;

    fn on_thread_named(name: &[u8], look: impl FnOnce(u32) + Send + 'static) {
        let name = std::ffi::CString::new(name).unwrap();
        let looking = std::thread::spawn(move || {
            rustix::thread::set_name(&name).unwrap();
            look(rustix::thread::gettid().as_raw_pid() as u32);
        });
        looking.join().unwrap();
    }

    #[test]
    fn odd_names_hide_nothing_else_of_a_thread() {
        let own = std::process::id();
        let (process_began, users) = (began(own).unwrap(), user_ids(own, own).unwrap());
        for name in [
            &b"a) b (c) S 1"[..],
            b"Uid:\t7\t7\t7\t7",
            b"a\nUid:\t7",
            b"\xff\xfe) Z 9",
            b")",
            b"(",
            b"",
        ] {
            on_thread_named(name, move |thread| {
                assert!(start_ticks(own, thread).is_some_and(|ticks| ticks >= process_began));
                assert!(last_cpu(own, thread).is_some(), "{name:?}");
                assert_eq!(user_ids(own, thread), Some(users), "{name:?}");
                assert_eq!(process_of(thread), Some(own), "{name:?}");
                let status = format!("/proc/{own}/task/{thread}/status");
                assert!(innermost_id(&status).is_some(), "{name:?}");
            });
        }
        assert_eq!(parent(own), Some(std::os::unix::process::parent_id()));
    }

    #[test]
    fn more_threads_than_files_may_be_open_have_their_time_counted() {
        let own = std::process::id();
        let open = || numbers_in("/proc/self/fd").len();
        let before = open();
        let clocks: Vec<CpuUse> = (0..500).map(|_| CpuUse::keeping(own, own, 50)).collect();
        // Other tests open files too.
        assert!(open() < before + 300);
        assert!(clocks.iter().all(|clock| clock.before_ns > 0));
        assert!(clocks.iter().any(|clock| clock.kept.is_none()));
        on_thread_named(b"busy", |_| {
            let busy = rustix::thread::gettid().as_raw_pid() as u32;
            let mut clock = CpuUse::keeping(std::process::id(), busy, 0);
            let begin = std::time::Instant::now();
            while begin.elapsed().as_millis() < 20 {}
            assert!(clock.since_last_ns() > 0);
        });
    }

    #[test]
    fn the_kernel_s_own_threads_are_told_from_programs() {
        assert_eq!(is_of_kernel(std::process::id()), Some(false));
        assert_eq!(is_of_kernel(u32::MAX), None);
        let kthreadd = |process: &u32| name(*process, *process) == "kthreadd";
        match processes().into_iter().find(kthreadd) {
            Some(process) => assert_eq!(is_of_kernel(process), Some(true)),
            None => skip("threads of the kernel are not shown here"),
        }
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
            let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
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
