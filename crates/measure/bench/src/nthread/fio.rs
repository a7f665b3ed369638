//! fio as in NThread §V-C: random reads and writes of private files that lie on node 0.

use std::path::Path;
use std::sync::Arc;

use egeria_engine::{Errno, InodeNumber, NewInode, Volume};

use super::plan::Pace;
use super::prepare::aside;
use crate::programs::script::Call;
use egeria_harness::{Error, Result};

/// Bytes of each thread's file: overwritten several times before it is measured, as the paper's 4 GB are
/// in a run of a minute. Beyond every cache of the emulated machine.
const FILE_BYTES: u64 = 8 << 20;
/// Bytes of a write while files are made.
const CHUNK: usize = 1 << 20;

/// Makes one file per thread, as fio names them.
pub(super) fn prepare(volume: &Arc<Volume>, threads: u32) -> Result<()> {
    aside(volume, |volume| {
        let made = (0..threads).try_for_each(|thread| make(volume, thread));
        made.map_err(|error| Error::failed(format!("cannot make fio's files: {error}")))
    })
}

fn make(volume: &Volume, thread: u32) -> Result<(), Errno> {
    let new = NewInode {
        mode: libc::S_IFREG | 0o600,
        uid: rustix::process::getuid().as_raw(),
        gid: rustix::process::getgid().as_raw(),
        rdev: 0,
    };
    let name = format!("f.{thread}.0");
    let ino = volume
        .create_open(InodeNumber::ROOT, name.as_bytes(), &new)?
        .ino;
    let file = volume.open(ino, None)?;
    let chunk = vec![0xE6; CHUNK];
    let offsets = (0..FILE_BYTES).step_by(CHUNK);
    let written = offsets
        .map(|offset| volume.write(file, offset, &chunk))
        .try_for_each(|written| written.map(|_| ()));
    volume.close(ino);
    volume.close(ino);
    written
}

/// The measured run.
pub(super) fn call(
    directory: &Path,
    read_percent: u32,
    block_bytes: u32,
    threads: u32,
    pace: &Pace,
) -> Call {
    Call::new([
        "fio".to_owned(),
        "--name=f".to_owned(),
        format!("--directory={}", directory.display()),
        "--ioengine=psync".to_owned(),
        "--thread".to_owned(),
        format!("--numjobs={threads}"),
        format!("--bs={block_bytes}"),
        format!("--size={FILE_BYTES}"),
        "--rw=randrw".to_owned(),
        format!("--rwmixread={read_percent}"),
        "--norandommap".to_owned(),
        "--randseed=7".to_owned(),
        "--time_based".to_owned(),
        format!("--ramp_time={}ms", pace.warmup.as_millis()),
        format!("--runtime={}ms", pace.measured.as_millis()),
        "--group_reporting".to_owned(),
        "--output-format=json".to_owned(),
        "--eta=never".to_owned(),
    ])
}
