//! Bytes stored per byte written: every store to the pools is recorded, as the crash explorer does.

use std::path::Path;

use egeria_engine::{
    AllocationPolicy, AttachMode, AttachOptions, CreateOptions, InodeNumber, NewInode, Volume,
};
use egeria_harness::{Error, Result};
use egeria_media::PoolIndex;
use egeria_media::recorder::{Event, Recorder};
use egeria_scratch::ScratchPools;

const NODES: [u16; 8] = [0, 1, 2, 3, 4, 5, 6, 7];
const POOL_BYTES: u64 = 32 << 20;
const FILE_BYTES: usize = 32 << 20;
/// Of each size, overwriting what is there.
const WRITES: [(usize, usize); 2] = [(2 << 20, 16), (4096, 4096)];

/// Bytes stored to the pools of a striped volume per byte that was written, both sizes together as many bytes of each as
/// [`WRITES`] says.
pub(super) fn measure(memory: &Path) -> Result<f64> {
    let pools = ScratchPools::make(memory, &NODES, POOL_BYTES, &CreateOptions::default())?;
    let options = AttachOptions {
        allocation: Some(AllocationPolicy::Striped),
        ..AttachOptions::default()
    };
    let volume =
        Volume::attach(pools.first(), AttachMode::CreateOrJoin, &options).map_err(Error::failed)?;
    let recorder = Recorder::new();
    for (index, pool) in volume.pools().iter().enumerate() {
        let attached = recorder.attach(PoolIndex(index as u8), pool);
        attached.map_err(|error| Error::io("cannot record stores", error, "free some memory"))?;
    }
    let counted = write(&volume, &recorder);
    for pool in volume.pools() {
        Recorder::detach(pool);
    }
    volume.detach();
    counted.map_err(|error| Error::failed(format!("cannot write to a striped file: {error}")))
}

fn write(volume: &Volume, recorder: &Recorder) -> std::result::Result<f64, egeria_engine::Errno> {
    let new = NewInode {
        mode: libc::S_IFREG | 0o600,
        uid: rustix::process::getuid().as_raw(),
        gid: rustix::process::getgid().as_raw(),
        rdev: 0,
    };
    let ino = volume
        .create_open(InodeNumber::ROOT, b"amplified", &new)?
        .ino;
    let file = volume.open(ino, None)?;
    volume.write(file, 0, &vec![1; FILE_BYTES])?;
    recorder.drain();
    let (mut stored, mut written) = (0u64, 0u64);
    for (bytes, count) in WRITES {
        let data = vec![bytes as u8 | 1; bytes];
        for index in 0..count {
            let offset = (index * 7919 * bytes) % (FILE_BYTES - bytes) / bytes * bytes;
            volume.write(file, offset as u64, &data)?;
            written += bytes as u64;
            let stores = recorder.drain().into_iter().map(|event| match event {
                Event::Store { bytes, .. } => bytes.len() as u64,
                _ => 0,
            });
            stored += stores.sum::<u64>();
        }
    }
    volume.close(ino);
    volume.close(ino);
    Ok(stored as f64 / written as f64)
}

#[cfg(test)]
mod tests {
    #[test]
    fn striped_writes_store_little_more_than_their_data() {
        let amplification = super::measure("/dev/shm".as_ref()).expect("room");
        assert!((1.0..1.05).contains(&amplification), "{amplification}");
    }
}
