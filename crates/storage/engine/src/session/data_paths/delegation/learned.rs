//! Learns from the duration of accesses of each size whether delegates or the caller are faster.
//!
//! The slower way is tried again at intervals, for a small part of the time that such accesses take.

use egeria_media::emulation::AccessKind;
use std::sync::atomic::{AtomicU32, Ordering};

/// Sizes are grouped by their power of two, up to here.
const SIZES: usize = 32;
/// Weight of a new measurement in the average: 1 / 2^3.
const SHIFT: u32 = 3;
/// The caller accesses the pools when that takes less than this share of the time. Delegates protect the pools from
/// many concurrent threads; a single caller does not notice this benefit (OdinFS).
const DIRECT_SHARE: (u64, u64) = (4, 5);
/// The other way is tried after this many times the time it took when it was tried last.
const TRY_AFTER: u64 = 64;

/// Which way an access goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Way {
    /// The caller accesses the pools.
    Direct,
    Delegated,
}

/// What is known about accesses of one size, us; 0: nothing. Lost updates of racing threads are harmless.
#[derive(Default)]
struct Known {
    direct_us: AtomicU32,
    delegated_us: AtomicU32,
    /// Time spent since the other way was tried.
    since_us: AtomicU32,
}

/// What a process has learned.
#[derive(Default)]
pub(crate) struct Learned {
    reads: [Known; SIZES],
    writes: [Known; SIZES],
}

impl Known {
    fn of(&self, way: Way) -> &AtomicU32 {
        match way {
            Way::Direct => &self.direct_us,
            Way::Delegated => &self.delegated_us,
        }
    }

    fn choose(&self) -> Way {
        let load = |word: &AtomicU32| u64::from(word.load(Ordering::Relaxed));
        let (direct, delegated) = (load(&self.direct_us), load(&self.delegated_us));
        if delegated == 0 {
            return Way::Delegated;
        }
        if direct == 0 {
            return Way::Direct;
        }
        let (better, other, other_us) = if direct * DIRECT_SHARE.1 < delegated * DIRECT_SHARE.0 {
            (Way::Direct, Way::Delegated, delegated)
        } else {
            (Way::Delegated, Way::Direct, direct)
        };
        if load(&self.since_us) < other_us.saturating_mul(TRY_AFTER) {
            return better;
        }
        self.since_us.store(0, Ordering::Relaxed);
        other
    }

    fn learn(&self, way: Way, took_us: u32) {
        let word = self.of(way);
        let known = word.load(Ordering::Relaxed);
        let now = match known {
            0 => took_us,
            _ => (i64::from(known) + ((i64::from(took_us) - i64::from(known)) >> SHIFT)) as u32,
        };
        word.store(now.max(1), Ordering::Relaxed);
        let since = self.since_us.load(Ordering::Relaxed);
        self.since_us
            .store(since.saturating_add(took_us.max(1)), Ordering::Relaxed);
    }
}

impl Learned {
    fn known(&self, kind: AccessKind, bytes: usize) -> &Known {
        let size = (bytes.max(1).ilog2() as usize).min(SIZES - 1);
        match kind {
            AccessKind::Read => &self.reads[size],
            AccessKind::Write => &self.writes[size],
        }
    }

    /// The way for the next access of this size.
    pub(crate) fn choose(&self, kind: AccessKind, bytes: usize) -> Way {
        self.known(kind, bytes).choose()
    }

    /// Note how long an access took.
    pub(crate) fn learn(&self, kind: AccessKind, bytes: usize, way: Way, took_us: u32) {
        self.known(kind, bytes).learn(way, took_us);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: AccessKind = AccessKind::Read;

    /// How often each way was chosen in this many accesses with these times.
    fn chosen(learned: &Learned, accesses: usize, took_us: impl Fn(Way) -> u32) -> [usize; 2] {
        let mut chosen = [0; 2];
        for _ in 0..accesses {
            let way = learned.choose(KIND, 65536);
            chosen[usize::from(way == Way::Delegated)] += 1;
            learned.learn(KIND, 65536, way, took_us(way));
        }
        chosen
    }

    fn took(direct_us: u32, delegated_us: u32) -> impl Fn(Way) -> u32 {
        move |way| match way {
            Way::Direct => direct_us,
            Way::Delegated => delegated_us,
        }
    }

    #[test]
    fn the_faster_way_is_taken_but_for_a_small_part_of_the_time() {
        for (direct_us, delegated_us) in [(100, 30), (30, 100), (1, 1000)] {
            let learned = Learned::default();
            let [direct, delegated] = chosen(&learned, 100_000, took(direct_us, delegated_us));
            let (direct, delegated) = (
                direct as u64 * u64::from(direct_us),
                delegated as u64 * u64::from(delegated_us),
            );
            let (good, bad) = if direct_us < delegated_us {
                (direct, delegated)
            } else {
                (delegated, direct)
            };
            assert!(bad > 0 && bad * 20 < good, "{good} {bad}");
        }
    }

    #[test]
    fn what_changed_is_noticed() {
        let learned = Learned::default();
        chosen(&learned, 1000, took(100, 30));
        let [direct, delegated] = chosen(&learned, 10_000, took(20, 60));
        assert!(direct > delegated, "{direct} {delegated}");
    }

    #[test]
    fn a_little_faster_alone_is_no_reason_to_go_oneself() {
        let learned = Learned::default();
        let [direct, delegated] = chosen(&learned, 1000, took(95, 100));
        assert!(delegated > 10 * direct, "{direct} {delegated}");
    }

    #[test]
    fn each_size_and_kind_is_known_for_itself() {
        let learned = Learned::default();
        chosen(&learned, 100, took(10, 1000));
        assert_eq!(learned.choose(AccessKind::Write, 65536), Way::Delegated);
        assert_eq!(learned.choose(KIND, 1 << 21), Way::Delegated);
        assert_eq!(learned.choose(KIND, 65537), Way::Direct);
    }
}
