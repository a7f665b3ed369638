//! Records, as the kernel writes them into a ring. Nothing of them is trusted: what makes no sense ends what can be
//! read, and is counted.

use perf_event_open_sys::bindings;

/// Bytes of the head of a record: kind, flags, size.
const HEAD_BYTES: usize = 8;
/// Process and thread, time, address, CPU, source.
const SAMPLE_WORDS: usize = 5;

/// What was asked to be in a sample, in this order.
pub(crate) const SAMPLE_TYPE: u64 = (bindings::PERF_SAMPLE_TID
    | bindings::PERF_SAMPLE_TIME
    | bindings::PERF_SAMPLE_ADDR
    | bindings::PERF_SAMPLE_CPU
    | bindings::PERF_SAMPLE_DATA_SRC) as u64;
/// And before the last of these. Events in software must not have it: with it the kernel samples every one of them.
pub(crate) const PERIOD: u64 = bindings::PERF_SAMPLE_PERIOD as u64;
/// And, where it may be, behind the others.
pub(crate) const PHYSICAL: u64 = bindings::PERF_SAMPLE_PHYS_ADDR as u64;

/// What answered an access.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Served {
    Memory,
    /// A cache, of whichever core.
    Cache,
    /// The event does not say.
    Unknown,
}

/// One sample.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// The kernel's process id, in the namespace of the sampling process.
    pub process_id: u32,
    /// The kernel's thread id.
    pub thread_id: u32,
    /// Where the thread ran.
    pub cpu: u32,
    /// When, by the clock that begins with the machine and stands still while it sleeps, ns.
    pub time_ns: u64,
    /// The address in the process.
    pub address: u64,
    /// The address in the machine's memory; 0 where the kernel does not say.
    pub physical: u64,
    /// Events that it stands for; 1 where the record does not say.
    pub weight: u64,
    /// It is an access at all, to memory of the process.
    pub is_access: bool,
    pub is_store: bool,
    /// What answered it.
    pub served: Served,
}

/// What else was in a ring.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Samples that found no room.
    pub lost: u64,
    /// Times that the kernel paused sampling because it took too long.
    pub throttled: u64,
    /// Rings, or ends of such, that made no sense.
    pub damaged: u64,
}

impl Tally {
    /// Adds those of another ring.
    pub fn add(&mut self, other: Tally) {
        self.lost = self.lost.saturating_add(other.lost);
        self.throttled = self.throttled.saturating_add(other.throttled);
        self.damaged = self.damaged.saturating_add(other.damaged);
    }
}

/// Takes the samples out of records that lie one behind the other.
pub fn decode(bytes: &[u8], mut take: impl FnMut(Access)) -> Tally {
    let (mut rest, mut tally) = (bytes, Tally::default());
    while !rest.is_empty() {
        let Some((kind, body, behind)) = split(rest) else {
            tally.damaged += 1;
            break;
        };
        match kind {
            bindings::PERF_RECORD_SAMPLE => match sample(body) {
                Some(access) => take(access),
                None => tally.damaged += 1,
            },
            // The event's number, and how many.
            bindings::PERF_RECORD_LOST => add(&mut tally.lost, word(body, 1)),
            bindings::PERF_RECORD_LOST_SAMPLES => add(&mut tally.lost, word(body, 0)),
            bindings::PERF_RECORD_THROTTLE => add(&mut tally.throttled, Some(1)),
            _ => {}
        }
        rest = behind;
    }
    tally
}

fn add(sum: &mut u64, more: Option<u64>) {
    *sum = sum.saturating_add(more.unwrap_or(0));
}

/// Kind and body of the first record, and what is behind it.
fn split(bytes: &[u8]) -> Option<(u32, &[u8], &[u8])> {
    let [k0, k1, k2, k3, _, _, s0, s1] = word(bytes, 0)?.to_ne_bytes();
    let size = usize::from(u16::from_ne_bytes([s0, s1]));
    let body = bytes.get(HEAD_BYTES..size)?;
    Some((u32::from_ne_bytes([k0, k1, k2, k3]), body, &bytes[size..]))
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at * 8..at * 8 + 8)?;
    Some(u64::from_ne_bytes(bytes.try_into().ok()?))
}

fn sample(body: &[u8]) -> Option<Access> {
    // The period is before the source, the physical address behind it.
    let (weight, source, physical) = match (body.len() / 8).checked_sub(SAMPLE_WORDS)? {
        0 => (1, word(body, 4)?, 0),
        1 => (word(body, 4)?, word(body, 5)?, 0),
        2 => (word(body, 4)?, word(body, 5)?, word(body, 6)?),
        _ => return None,
    };
    let half = |at: usize, second: usize| {
        let bytes = body.get(at * 8 + second * 4..at * 8 + second * 4 + 4)?;
        Some(u32::from_ne_bytes(bytes.try_into().ok()?))
    };
    let (address, source) = (word(body, 2)?, Source(source));
    Some(Access {
        process_id: half(0, 0)?,
        thread_id: half(0, 1)?,
        cpu: half(3, 0)?,
        time_ns: word(body, 1)?,
        address,
        physical,
        weight: weight.max(1),
        is_access: is_of_process(address) && source.is_access(),
        is_store: source.is_store(),
        served: source.served(),
    })
}

/// Whether it is memory of a process: the upper half of the addresses is the kernel's, and 0 is where none is named.
/// What the kernel does for a process, as copying what it read of a file, counts as the process's own.
fn is_of_process(address: u64) -> bool {
    address != 0 && address >> 63 == 0
}

/// What the PMU says of an access, `union perf_mem_data_src`.
#[derive(Clone, Copy)]
struct Source(u64);

impl Source {
    fn field(self, shift: u32, bits: u32) -> u64 {
        self.0 >> shift & ((1 << bits) - 1)
    }

    /// 1: unknown, 2: load, 4: store, 8: prefetch, 16: instruction.
    fn operation(self) -> u64 {
        self.field(0, 5)
    }

    /// Operations of no such kind name no level either; a page fault, which names neither, is an access all the same.
    fn is_access(self) -> bool {
        self.operation() & 16 == 0
    }

    fn is_store(self) -> bool {
        self.operation() & 4 != 0
    }

    fn served(self) -> Served {
        const MISS: u64 = 0x04;
        const NEAR: u64 = 0x08 | 0x10 | 0x20;
        const LAST_CACHE: u64 = 0x40;
        const MEMORIES: u64 = 0x80 | 0x100 | 0x200;
        const OTHER_CACHES: u64 = 0x400 | 0x800;
        let level = self.field(5, 14);
        match self.field(33, 4) {
            // CXL, RAM, persistent memory.
            0x9 | 0xd | 0xe => return Served::Memory,
            1..=7 | 0xb | 0xc => return Served::Cache,
            _ => {}
        }
        match level {
            _ if level & MEMORIES != 0 => Served::Memory,
            // Missed in the last one: it came from beyond.
            _ if level & LAST_CACHE != 0 && level & MISS != 0 => Served::Memory,
            _ if level & (NEAR | LAST_CACHE | OTHER_CACHES) != 0 => Served::Cache,
            _ => Served::Unknown,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A record of these words.
    pub(crate) fn record(kind: u32, words: &[u64]) -> Vec<u8> {
        let size = HEAD_BYTES + words.len() * 8;
        let head = u64::from(kind) | (size as u64) << 48;
        let words = std::iter::once(&head).chain(words);
        words.flat_map(|word| word.to_ne_bytes()).collect()
    }

    fn sampled(words: &[u64]) -> Vec<Access> {
        let mut found = Vec::new();
        let bytes = record(bindings::PERF_RECORD_SAMPLE, words);
        let tally = decode(&bytes, |access| found.push(access));
        assert_eq!(tally.damaged == 0, found.len() == 1);
        found
    }

    /// A load that the last cache missed, answered by the memory near by: as the kernel tells it of Intel.
    const NEAR_MEMORY: u64 = 0x2 | (0x80 | 0x2) << 5 | 0xd << 33;

    #[test]
    fn samples_are_read_with_and_without_physical_addresses() {
        let words = [7 << 32 | 5, 99, 0x7f00_1234, 3, 1000, NEAR_MEMORY, 0x8000];
        let expected = Access {
            process_id: 5,
            thread_id: 7,
            cpu: 3,
            time_ns: 99,
            address: 0x7f00_1234,
            physical: 0x8000,
            weight: 1000,
            is_access: true,
            is_store: false,
            served: Served::Memory,
        };
        assert_eq!(sampled(&words), [expected]);
        let without = Access {
            physical: 0,
            ..expected
        };
        assert_eq!(sampled(&words[..6]), [without]);
        let software = [&words[..4], &[NEAR_MEMORY]].concat();
        let of_software = Access {
            weight: 1,
            ..without
        };
        assert_eq!(sampled(&software), [of_software]);
        assert!(sampled(&words[..4]).is_empty());
        assert!(sampled(&[0; 8]).is_empty());
    }

    #[test]
    fn sources_are_told_apart() {
        let of = |source| sampled(&[1, 0, 4096, 0, 1, source])[0];
        for (source, served) in [
            (NEAR_MEMORY, Served::Memory),
            (0x2 | 0x100 << 5, Served::Memory),
            (0x2 | 0xe << 33, Served::Memory),
            (0x2 | 0x9 << 33, Served::Memory),
            (0x2 | (0x40 | 0x4) << 5, Served::Memory),
            (0x2 | (0x40 | 0x2) << 5, Served::Cache),
            (0x2 | 0x8 << 5 | 0x1 << 33, Served::Cache),
            (0x2 | 0x800 << 5, Served::Cache),
            (0x2 | 0xc << 33, Served::Cache),
            // As the kernel writes it for page faults.
            (0x1e_0508_0021, Served::Unknown),
            (0, Served::Unknown),
        ] {
            assert_eq!(of(source).served, served, "{source:#x}");
        }
        assert!(of(4).is_store && !of(2).is_store);
        assert!(of(0x1e_0508_0021).is_access && !of(16).is_access);
    }

    #[test]
    fn addresses_of_the_kernel_and_none_are_no_accesses() {
        let of = |address| sampled(&[1, 0, address, 0, 1, 2])[0].is_access;
        assert!(of(4096) && of(0x7fff_ffff_ffff));
        assert!(!of(0) && !of(0xffff_8000_0000_0000));
    }

    #[test]
    fn lost_samples_and_pauses_are_counted() {
        let records = [
            record(bindings::PERF_RECORD_LOST, &[1, 40]),
            record(bindings::PERF_RECORD_LOST_SAMPLES, &[2]),
            record(bindings::PERF_RECORD_THROTTLE, &[0, 0, 0]),
            record(bindings::PERF_RECORD_UNTHROTTLE, &[0, 0, 0]),
            record(999, &[]),
            record(bindings::PERF_RECORD_SAMPLE, &[1, 0, 4096, 0, 1, 2]),
            record(bindings::PERF_RECORD_LOST, &[1, u64::MAX]),
        ];
        let mut count = 0;
        let tally = decode(&records.concat(), |_| count += 1);
        let expected = Tally {
            lost: u64::MAX,
            throttled: 1,
            damaged: 0,
        };
        assert_eq!((tally, count), (expected, 1));
    }

    #[test]
    fn damage_ends_what_can_be_read() {
        let whole = record(bindings::PERF_RECORD_SAMPLE, &[1, 0, 4096, 0, 1, 2]);
        for size in [0_u16, 7, 57, u16::MAX] {
            let mut damaged = whole.clone();
            damaged[6..8].copy_from_slice(&size.to_ne_bytes());
            let bytes = [whole.clone(), damaged, whole.clone()].concat();
            let mut count = 0;
            let tally = decode(&bytes, |_| count += 1);
            assert!(count >= 1 && tally.damaged >= 1, "{size}: {tally:?}");
        }
    }
}
