//! What goes through the pools while programs run: the session's counters, looked at often.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use egeria_engine::Volume;

use egeria_harness::{Error, Result};

/// A look at the counters of all volumes together.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sample {
    /// Wall time since sampling began.
    pub(super) at: Duration,
    /// The clock of each volume's machine. It stands still while the host cannot keep up.
    pub(super) machine: Vec<Duration>,
    /// Bytes read from each node.
    pub(super) read_bytes: Vec<u64>,
    /// Bytes written to each node.
    pub(super) written_bytes: Vec<u64>,
    /// Bytes read or written by threads of the same node.
    pub(super) local_bytes: u64,
    /// Bytes read or written from another node.
    pub(super) remote_bytes: u64,
}

/// Bandwidth of the nodes over a short time, machine time.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Moment {
    /// Middle of the time, ms of machine time since the program's first access.
    pub at_ms: f64,
    /// Read from each node, bytes/s.
    pub read_bytes_s: Vec<f64>,
    /// Written to each node, bytes/s.
    pub written_bytes_s: Vec<f64>,
}

/// Looks until stopped.
pub(super) struct Sampler {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Vec<Sample>>,
}

impl Sampler {
    /// Looks at the volumes every `interval`; each has a pool on every node, in order.
    pub(super) fn start(
        volumes: Vec<Arc<Volume>>,
        nodes: usize,
        interval: Duration,
    ) -> Result<Sampler> {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let work = move || {
            let (begin, mut samples) = (Instant::now(), Vec::new());
            while !stopped.load(Ordering::Relaxed) {
                samples.push(look(&volumes, nodes, begin.elapsed()));
                std::thread::sleep(interval);
            }
            samples.push(look(&volumes, nodes, begin.elapsed()));
            samples
        };
        let thread = std::thread::Builder::new().name("egeria-samples".to_owned());
        let thread = thread
            .spawn(work)
            .map_err(|error| Error::io("cannot start a thread", error, "end some programs"))?;
        Ok(Sampler { stop, thread })
    }

    /// All samples, in order.
    pub(super) fn stop(self) -> Vec<Sample> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

fn look(volumes: &[Arc<Volume>], nodes: usize, at: Duration) -> Sample {
    let machine_now = |volume: &Arc<Volume>| volume.emulation().machine_now_ns();
    let mut sample = Sample {
        at,
        machine: volumes
            .iter()
            .map(machine_now)
            .map(Duration::from_nanos)
            .collect(),
        read_bytes: vec![0; nodes],
        written_bytes: vec![0; nodes],
        local_bytes: 0,
        remote_bytes: 0,
    };
    for counters in volumes.iter().map(|volume| volume.counters()) {
        for node in 0..nodes {
            sample.read_bytes[node] += counters.read_bytes[node];
            sample.written_bytes[node] += counters.written_bytes[node];
        }
        sample.local_bytes += counters.local_bytes;
        sample.remote_bytes += counters.remote_bytes;
    }
    sample
}

/// The samples from `skip` after the first access on.
pub(super) fn measured(samples: &[Sample], skip: Duration) -> &[Sample] {
    let moved = |sample: &Sample| sample.local_bytes + sample.remote_bytes;
    let quiet = samples.first().map_or(0, moved);
    let busy = samples.iter().position(|sample| moved(sample) > quiet);
    let Some(first) = busy.map(|first| first.saturating_sub(1)) else {
        return &[];
    };
    let begin = samples[first].at + skip;
    let from = samples.iter().position(|sample| sample.at >= begin);
    &samples[from.unwrap_or(first)..]
}

/// Share of bytes moved on the thread's own node; `None` when none were.
pub(super) fn local_share(samples: &[Sample]) -> Option<f64> {
    let (first, last) = (samples.first()?, samples.last()?);
    let local = last.local_bytes.saturating_sub(first.local_bytes);
    let remote = last.remote_bytes.saturating_sub(first.remote_bytes);
    (local + remote > 0).then(|| local as f64 / (local + remote) as f64)
}

/// Wall time per time of the machine of each volume, over the samples; the declared dilation when there are too few.
pub(super) fn dilations(samples: &[Sample], volumes: usize, declared: f64) -> Vec<f64> {
    let of = |volume: usize| {
        let (first, last) = (samples.first()?, samples.last()?);
        let machine = last
            .machine
            .get(volume)?
            .checked_sub(*first.machine.get(volume)?)?;
        let dilation = (last.at - first.at).as_secs_f64() / machine.as_secs_f64();
        // Never faster than declared, but for the clocks' grain.
        dilation.is_finite().then(|| dilation.max(declared))
    };
    (0..volumes)
        .map(|volume| of(volume).unwrap_or(declared))
        .collect()
}

/// Bandwidth between every two samples, by the clock of the first volume's machine.
pub(super) fn moments(samples: &[Sample]) -> Vec<Moment> {
    let clock = |sample: &Sample| sample.machine.first().copied().unwrap_or_default();
    let Some(begin) = samples.first().map(clock) else {
        return Vec::new();
    };
    let moment = |pair: &[Sample]| {
        let (from, until) = (clock(&pair[0]), clock(&pair[1]));
        let seconds = until.saturating_sub(from).as_secs_f64();
        let rates = |before: &[u64], after: &[u64]| -> Vec<f64> {
            let bytes = before.iter().zip(after);
            bytes
                .map(|(before, after)| after.saturating_sub(*before) as f64 / seconds.max(1e-9))
                .collect()
        };
        let middle = ((from + until) / 2).saturating_sub(begin);
        Moment {
            at_ms: middle.as_secs_f64() * 1e3,
            read_bytes_s: rates(&pair[0].read_bytes, &pair[1].read_bytes),
            written_bytes_s: rates(&pair[0].written_bytes, &pair[1].written_bytes),
        }
    };
    // A clock that stood still between two samples gives no rate.
    let moved = |pair: &&[Sample]| clock(&pair[1]) > clock(&pair[0]);
    samples.windows(2).filter(moved).map(moment).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(at_ms: u64, local_bytes: u64, remote_bytes: u64) -> Sample {
        Sample {
            at: Duration::from_millis(at_ms),
            machine: vec![Duration::from_millis(at_ms) / 16],
            read_bytes: vec![local_bytes, remote_bytes],
            written_bytes: vec![0, 0],
            local_bytes,
            remote_bytes,
        }
    }

    #[test]
    fn warm_up_counts_from_the_first_access() {
        let samples = [
            sample(0, 50, 50),
            sample(100, 50, 50),
            sample(200, 60, 50),
            sample(300, 60, 100),
            sample(400, 90, 110),
        ];
        let skip = |ms| measured(&samples, Duration::from_millis(ms));
        assert_eq!(skip(0)[0].at.as_millis(), 100);
        assert_eq!(local_share(skip(0)), Some(0.4));
        assert_eq!(local_share(skip(200)), Some(0.75));
        assert_eq!(local_share(&samples[..2]), None);
        assert!(measured(&samples[..2], Duration::ZERO).is_empty());
    }

    #[test]
    fn clock_that_stood_still_lengthens_the_dilation() {
        let mut samples = [
            sample(0, 0, 0),
            sample(160, 1000, 10),
            sample(320, 2000, 10),
        ];
        let close = |left: &[f64], right: f64| left.iter().all(|one| (one - right).abs() < 1e-6);
        assert!(close(&dilations(&samples, 1, 16.0), 16.0));
        samples[2].machine = samples[1].machine.clone();
        assert!(close(&dilations(&samples, 1, 16.0), 32.0));
        assert_eq!(moments(&samples).len(), 1, "no rate while it stands still");
        assert!(
            close(&dilations(&samples, 2, 16.0)[1..], 16.0),
            "no clock of that volume"
        );
        assert!(close(&dilations(&[], 1, 16.0), 16.0));
    }

    #[test]
    fn rates_are_on_the_machine_s_clock() {
        let samples = [sample(0, 0, 0), sample(160, 1000, 10)];
        let moments = moments(&samples);
        assert_eq!(moments.len(), 1);
        assert!((moments[0].at_ms - 5.0).abs() < 1e-9);
        assert!((moments[0].read_bytes_s[0] - 100_000.0).abs() < 1e-6);
        assert!((moments[0].read_bytes_s[1] - 1_000.0).abs() < 1e-6);
    }
}
