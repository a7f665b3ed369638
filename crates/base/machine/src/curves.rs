//! What describes a memory, out of the rates that numbers of threads got of it. Calibration and stewards measure in
//! different ways; both describe by this.

use crate::types::medium::{Medium, Side};
use crate::types::model::PoolBandwidth;

/// Least share that a curve or factor may say.
pub const MIN_SHARE: f64 = 1e-6;
/// Least bandwidth that a file may say, bytes/s.
pub const MIN_BYTES_S: f64 = 1.0;
/// Threads that together get less than this share of as many times as much as one are held up by the medium.
pub const HELD_UP: f64 = 0.97;
/// Least and most that a point of a mix curve may say.
const MIX_FACTORS: [f64; 2] = [0.01, 2.0];
/// Medians of measurements are no closer than this.
const SAME_MIX: f64 = 0.02;
const HALF: f64 = 0.5;

/// What a number of threads at once got, bytes/s of all of them.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Crowd {
    pub threads: u32,
    pub read_bytes_s: f64,
    pub write_bytes_s: f64,
    /// Half of the bytes read, half written.
    pub mixed_bytes_s: f64,
}

/// The numbers of threads that are measured: doubled up to all, and half of all.
pub fn thread_counts(cpus: usize) -> Vec<usize> {
    let doubled = std::iter::successors(Some(1), |count| Some(count * 2));
    let below = doubled.take_while(|count| *count < cpus);
    let counts = below.chain([cpus / 2, cpus]);
    let mut counts: Vec<usize> = counts.filter(|count| *count > 0).collect();
    counts.sort_unstable();
    counts.dedup();
    counts
}

/// Rounded to the digits that a measurement gives.
pub fn rounded(value: f64) -> f64 {
    if value <= 0.0 {
        return 0.0;
    }
    let unit = 10_f64.powi(value.log10().floor() as i32 - 3);
    // Divides by a whole number where it can: 0.904 and not 0.9040000000000001.
    if unit < 1.0 {
        (value / unit).round() / (1.0 / unit).round()
    } else {
        (value / unit).round() * unit
    }
}

/// A bandwidth as a file may say it, bytes/s.
pub fn bandwidth(bytes_s: f64) -> f64 {
    rounded(bytes_s).max(MIN_BYTES_S)
}

/// The most that was got, and the share of it that is left with more threads than got it, or with fewer where these did not get
/// as many times as much as one.
pub fn curve(crowds: &[Crowd], of: impl Fn(&Crowd) -> f64) -> (f64, Vec<(u32, f64)>) {
    let most = crowds.iter().map(&of).fold(0.0, f64::max);
    let best = crowds.iter().position(|crowd| of(crowd) >= most);
    let one = crowds.iter().find(|crowd| crowd.threads == 1);
    let one = one.map_or(0.0, &of);
    let most = most.max(MIN_BYTES_S);
    let is_held_up = |crowd: &Crowd| of(crowd) < HELD_UP * f64::from(crowd.threads) * one;
    let points = crowds.iter().enumerate();
    let points = points
        .filter(|(position, crowd)| *position >= best.unwrap_or(0) || is_held_up(crowd))
        .map(|(_, crowd)| crowd);
    let point = |crowd: &Crowd| {
        (
            crowd.threads,
            rounded(of(crowd) / most).clamp(MIN_SHARE, 1.0),
        )
    };
    (bandwidth(most), points.map(point).collect())
}

/// What is left while half of the bytes are written. Of several threads, for one alone keeps fewer accesses on their way.
pub fn mix_factor(crowds: &[Crowd]) -> Option<f64> {
    let one = crowds.iter().find(|crowd| crowd.threads == 1)?;
    let is_held_up =
        |bytes_s: f64, alone: f64, threads: u32| bytes_s < HELD_UP * f64::from(threads) * alone;
    // Where more threads still read or write more, what they do at once says nothing of the medium.
    let is_full = |crowd: &&Crowd| {
        is_held_up(crowd.read_bytes_s, one.read_bytes_s, crowd.threads)
            && is_held_up(crowd.write_bytes_s, one.write_bytes_s, crowd.threads)
    };
    let several = || crowds.iter().filter(|crowd| crowd.threads > 1);
    // The more threads, the less it matters which of them read and which write.
    let most = several().filter(is_full).max_by_key(|crowd| crowd.threads);
    let by_mixed = |one: &&Crowd, other: &&Crowd| one.mixed_bytes_s.total_cmp(&other.mixed_bytes_s);
    let most = most.or_else(|| several().max_by(by_mixed))?;
    let apart = HALF / most.read_bytes_s + HALF / most.write_bytes_s;
    Some(most.mixed_bytes_s * apart).filter(|left| left.is_finite())
}

/// A mix curve of this factor; empty where nothing is lost or won.
pub fn mix_curve(factor: Option<f64>) -> Vec<[f64; 2]> {
    match factor.map(rounded) {
        Some(left) if (left - 1.0).abs() > SAME_MIX => {
            vec![[HALF, left.clamp(MIX_FACTORS[0], MIX_FACTORS[1])]]
        }
        _ => Vec::new(),
    }
}

impl PoolBandwidth {
    /// What these threads of the pool's node got; `None` if it was nothing, or one thread alone was not tried.
    pub fn of(crowds: &[Crowd]) -> Option<PoolBandwidth> {
        let one = crowds.iter().find(|crowd| crowd.threads == 1)?;
        let (read_bytes_s, read_curve) = curve(crowds, |crowd| crowd.read_bytes_s);
        let (write_bytes_s, write_curve) = curve(crowds, |crowd| crowd.write_bytes_s);
        let pool = PoolBandwidth {
            read_bytes_s,
            write_bytes_s,
            read_stream_bytes_s: Some(bandwidth(one.read_bytes_s)),
            write_stream_bytes_s: Some(bandwidth(one.write_bytes_s)),
            read_curve,
            write_curve,
            mix_curve: mix_curve(mix_factor(crowds)),
        };
        (one.read_bytes_s >= MIN_BYTES_S && one.write_bytes_s >= MIN_BYTES_S).then_some(pool)
    }

    /// Whether a machine file could say it.
    pub fn is_valid(&self) -> bool {
        crate::check::pool("", self).is_ok()
    }

    /// The medium, as far as it was measured: nothing is known of latencies and of accesses from other nodes.
    pub fn medium(&self) -> Medium<'_> {
        let side = |bytes_s: f64, stream_bytes_s: Option<f64>, curve| Side {
            bytes_s,
            stream_bytes_s: stream_bytes_s.unwrap_or(bytes_s),
            latency_ns: 0.0,
            remote_latency_factor: 1.0,
            remote_bandwidth_factor: 1.0,
            curve,
        };
        Medium {
            read: side(
                self.read_bytes_s,
                self.read_stream_bytes_s,
                &self.read_curve,
            ),
            write: side(
                self.write_bytes_s,
                self.write_stream_bytes_s,
                &self.write_curve,
            ),
            mix_curve: &self.mix_curve,
            remote_mix_curve: &[],
            directory_write_share: 0.0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crowd(threads: u32, read: f64, write: f64, mixed: f64) -> Crowd {
        Crowd {
            threads,
            read_bytes_s: read,
            write_bytes_s: write,
            mixed_bytes_s: mixed,
        }
    }

    #[test]
    fn figures_have_four_digits() {
        for (value, expected) in [
            (9_074_826_917.531_391, 9_075_000_000.0),
            (549.115_788, 549.1),
            (0.904_807_8, 0.9048),
            (1.0, 1.0),
            (99_996.0, 100_000.0),
            (0.0, 0.0),
            (-1.0, 0.0),
        ] {
            assert_eq!(rounded(value), expected);
        }
    }

    #[test]
    fn threads_double_up_to_all() {
        assert_eq!(thread_counts(1), [1]);
        assert_eq!(thread_counts(2), [1, 2]);
        assert_eq!(thread_counts(6), [1, 2, 3, 4, 6]);
        assert_eq!(thread_counts(28), [1, 2, 4, 8, 14, 16, 28]);
        assert_eq!(thread_counts(0), [] as [usize; 0]);
        assert_eq!(thread_counts(8), [1, 2, 4, 8]);
    }

    #[test]
    fn a_crowded_medium_gives_less_than_its_peak() {
        let crowds = [
            crowd(1, 3e9, 1e9, 1.5e9),
            crowd(2, 6e9, 2e9, 2.4e9),
            crowd(4, 6e9, 2e9, 2.4e9),
            crowd(8, 3e9, 1e9, 1.2e9),
        ];
        let pool = PoolBandwidth::of(&crowds).unwrap();
        assert_eq!((pool.read_bytes_s, pool.write_bytes_s), (6e9, 2e9));
        assert_eq!(pool.read_curve, [(2, 1.0), (4, 1.0), (8, 0.5)]);
        // Alone, 1.5 GB/s of both in the same time.
        assert_eq!(pool.mix_curve, [[0.5, 0.8]]);
        let medium = pool.medium();
        assert_eq!(medium.read.stream_bytes_s, 3e9);
        let capacity = |threads| {
            let kind = crate::AccessKind::Write;
            medium.capacity_bytes_s(kind, false, threads)
        };
        assert_eq!((capacity(1), capacity(6), capacity(64)), (2e9, 1.5e9, 1e9));
        assert_eq!(PoolBandwidth::of(&crowds[1..]), None, "one was not tried");
        assert_eq!(PoolBandwidth::of(&[crowd(1, 1e9, 0.0, 1e9)]), None);
    }
}
