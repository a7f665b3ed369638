//! What asking for admission costs a thread that need not wait: reads of 4 KiB with and without a limit, in this process, by
//! the thread's own CPU time.

use std::num::NonZeroU32;
use std::path::Path;

use egeria_engine::{AttachOptions, Errno, FileReference, LimitedBy, Volume};
use egeria_harness::{Error, Result};
use egeria_media::PoolIndex;
use egeria_stats::statistics::median;
use serde::Serialize;

use crate::own_file::with_file;

const POOL_BYTES: u64 = 16 << 20;
const REQUEST_BYTES: usize = 4096;
/// Requests of a round with a limit, and of one without.
const REQUESTS: u32 = 20_000;
const ROUNDS: usize = 15;
/// Cores of the paper's machine (Table I).
const CORES: f64 = 16.0;

/// What asking for admission costs.
#[derive(Clone, Copy, Debug, PartialEq, Default, Serialize)]
pub struct Gate {
    /// CPU time of asking and of giving the place back, on this host, ns.
    pub ask_ns: f64,
    /// The same of all requests of 14 threads that write 4 KiB, as a share of the CPU time of 16 cores.
    pub cpu_share: f64,
}

impl Gate {
    /// With this number of requests per second of the machine.
    pub(super) fn at(self, requests_s: f64) -> Gate {
        Gate {
            cpu_share: requests_s * self.ask_ns / (CORES * 1e9),
            ..self
        }
    }
}

pub(super) fn measure(memory: &Path) -> Result<Gate> {
    let options = AttachOptions::default();
    with_file(memory, (&[0], POOL_BYTES), &options, |volume, file| {
        let asked = measure_on(volume, file);
        let ask_ns =
            asked.map_err(|error| Error::failed(format!("cannot read a file: {error}")))?;
        Ok(Gate {
            ask_ns,
            cpu_share: 0.0,
        })
    })
}

fn measure_on(volume: &Volume, file: FileReference) -> std::result::Result<f64, Errno> {
    let mut data = [0; REQUEST_BYTES];
    volume.write(file, 0, &data)?;
    let mut read_all = |limit: Option<u32>| {
        let limit = limit.and_then(NonZeroU32::new);
        volume.limit_admission(PoolIndex(0), limit, LimitedBy::Hand)?;
        let begun_ns = cpu_ns();
        for _ in 0..REQUESTS {
            volume.read(file, 0, &mut data)?;
        }
        Ok::<_, Errno>((cpu_ns() - begun_ns) as f64 / f64::from(REQUESTS))
    };
    let mut asked_ns = Vec::new();
    for _ in 0..ROUNDS {
        let without_ns = read_all(None)?;
        asked_ns.push(read_all(Some(2))? - without_ns);
    }
    Ok(median(&asked_ns).unwrap_or(0.0).max(0.0))
}

/// CPU time of this thread, ns.
fn cpu_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

#[cfg(test)]
mod tests {
    #[test]
    fn asking_costs_something() {
        let gate = super::measure("/dev/shm".as_ref()).expect("room");
        // No figure: how fast this host is does not matter.
        assert!(gate.ask_ns >= 0.0 && gate.ask_ns.is_finite());
        assert!((gate.at(1e6).cpu_share - gate.ask_ns / 16e3).abs() < 1e-12);
    }
}
