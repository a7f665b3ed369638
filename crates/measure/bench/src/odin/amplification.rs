//! Bytes stored, and bytes that media write, per byte written: every store to the pools is recorded, as the crash explorer
//! does.

use std::collections::HashSet;
use std::num::NonZeroU8;
use std::path::Path;

use egeria_engine::{
    AllocationPolicy, AttachOptions, DelegationRule, Errno, FileReference, Volume,
};
use egeria_harness::{Error, Result};
use egeria_media::PoolIndex;
use egeria_media::recorder::{Event, Recorder};

use crate::own_file::with_file;

const NODES: [u16; 8] = [0, 1, 2, 3, 4, 5, 6, 7];
const POOL_BYTES: u64 = 32 << 20;
const FILE_BYTES: usize = 32 << 20;
/// Of each size, overwriting what is there.
const WRITES: [(usize, usize); 2] = [(2 << 20, 16), (4096, 4096)];
/// What persistent memory writes at once (OptaneStudy: 256 bytes). Its buffer combines the stores of one call.
const GRAIN_BYTES: u64 = 256;
/// Delegates of each pool, where there are some.
const DELEGATES: NonZeroU8 = NonZeroU8::new(4).unwrap();

/// Per byte written to a striped file, over as many bytes of each size as [`WRITES`] says.
#[derive(Clone, Copy)]
pub(super) struct Amplification {
    /// Bytes stored to the pools.
    pub(super) stored: f64,
    /// Bytes that media write: all grains that the stores of a call touch.
    pub(super) medium: f64,
    /// The same with delegates.
    pub(super) delegated_medium: f64,
}

pub(super) fn measure(memory: &Path) -> Result<Amplification> {
    let direct = measure_with(memory, None)?;
    let rule = DelegationRule {
        delegates: DELEGATES,
        min_read_bytes: 1,
        min_write_bytes: 1,
        always: true,
    };
    let delegated = measure_with(memory, Some(rule))?;
    Ok(Amplification {
        stored: direct.stored,
        medium: direct.medium,
        delegated_medium: delegated.medium,
    })
}

fn measure_with(memory: &Path, rule: Option<DelegationRule>) -> Result<Counted> {
    let options = AttachOptions {
        allocation: Some(AllocationPolicy::Striped),
        ..AttachOptions::default()
    };
    with_file(memory, (&NODES, POOL_BYTES), &options, |volume, file| {
        let recorder = Recorder::new();
        for (index, pool) in volume.pools().iter().enumerate() {
            let attached = recorder.attach(PoolIndex(index as u8), pool);
            attached
                .map_err(|error| Error::io("cannot record stores", error, "free some memory"))?;
        }
        let set = volume.set_delegation(rule, true);
        let counted = set.and_then(|()| write(volume, file, &recorder));
        for pool in volume.pools() {
            Recorder::detach(pool);
        }
        counted.map_err(|error| Error::failed(format!("cannot write to a striped file: {error}")))
    })
}

/// What one volume stored per byte.
struct Counted {
    stored: f64,
    medium: f64,
}

fn write(
    volume: &Volume,
    file: FileReference,
    recorder: &Recorder,
) -> std::result::Result<Counted, Errno> {
    volume.write(file, 0, &vec![1; FILE_BYTES])?;
    recorder.drain();
    let (mut stored, mut medium, mut written) = (0u64, 0u64, 0u64);
    for (bytes, count) in WRITES {
        let data = vec![bytes as u8 | 1; bytes];
        for index in 0..count {
            let offset = (index * 7919 * bytes) % (FILE_BYTES - bytes) / bytes * bytes;
            volume.write(file, offset as u64, &data)?;
            written += bytes as u64;
            let mut grains = HashSet::new();
            for event in recorder.drain() {
                if let Event::Store {
                    pool, at, bytes, ..
                } = event
                {
                    stored += bytes.len() as u64;
                    let first = at.0 / GRAIN_BYTES;
                    let end = (at.0 + bytes.len() as u64).div_ceil(GRAIN_BYTES);
                    grains.extend((first..end).map(|grain| (pool.0, grain)));
                }
            }
            medium += grains.len() as u64 * GRAIN_BYTES;
        }
    }
    Ok(Counted {
        stored: stored as f64 / written as f64,
        medium: medium as f64 / written as f64,
    })
}

#[cfg(test)]
mod tests {
    #[test]
    fn striped_writes_store_little_more_than_their_data() {
        let found = super::measure("/dev/shm".as_ref()).expect("room");
        assert!((1.0..1.05).contains(&found.stored), "{}", found.stored);
        let media = [found.medium, found.delegated_medium];
        assert!(
            media.iter().all(|bytes| (1.0..1.2).contains(bytes)),
            "{media:?}"
        );
        assert!(
            found.medium >= found.stored - 1e-9,
            "grains hold all stores"
        );
    }
}
