//! Which reads the engine tells the emulated machine's caches of: told by what accesses are charged, which is
//! time of the declared machine, not of this one.

use crate::common::{FILE, Scratch};
use egeria_engine::*;
use egeria_machine::Machine;
use std::sync::Arc;

/// Time of a read from a medium of 10 MB/s is told from one out of a cache of 10 GB/s by this, ns.
const MEDIUM_NS: u64 = 100_000;

/// One node with the slowest of mediums and a cache.
fn machine() -> Machine {
    let text = "name = \"slow\"\n[emulation]\ndilation = 1.0\ntiming = true\n\
                [[nodes]]\nid = 0\n[nodes.emulated]\ncores = 4\ndimms = 1\n\
                read_bytes_s = 1e7\nwrite_bytes_s = 1e9\nread_stream_bytes_s = 1e7\nwrite_stream_bytes_s = 1e9\n\
                read_latency_ns = 10.0\nwrite_latency_ns = 10.0\nremote_latency_factor = 1.0\n\
                remote_read_bandwidth_factor = 1.0\nremote_write_bandwidth_factor = 1.0\n\
                read_curve = [[1, 1.0]]\nwrite_curve = [[1, 1.0]]\n\
                llc_bytes = 1048576\nllc_latency_ns = 10.0\nllc_read_bytes_s = 1e10\n";
    Machine::from_toml(text, "slow.toml".as_ref()).expect("a good file")
}

/// Whether a read takes its bytes from the medium.
fn is_from_medium(volume: &Arc<Volume>, file: FileReference, offset: u64, bytes: usize) -> bool {
    let busy_ns = || -> u64 {
        let threads = volume.threads(0);
        threads.iter().map(|thread| thread.emulated_busy_ns).sum()
    };
    let before_ns = busy_ns();
    assert_eq!(volume.read(file, offset, &mut vec![0; bytes]), Ok(bytes));
    busy_ns() - before_ns > MEDIUM_NS
}

#[test]
fn reads_are_cached_by_block_and_writes_undo_it() {
    let scratch = Scratch::new(1, 32 << 20);
    let volume = scratch.attach_with(&AttachOptions {
        machine: Some(machine()),
        ..AttachOptions::default()
    });
    let made = volume.create_open(InodeNumber::ROOT, b"file", &FILE);
    let ino = made.expect("create").ino;
    let file = volume.open(ino, None).expect("open");
    assert_eq!(volume.write(file, 0, &[7; 8 * 4096]), Ok(8 * 4096));

    assert!(is_from_medium(&volume, file, 0, 4096), "cold");
    assert!(!is_from_medium(&volume, file, 0, 4096), "one block");
    assert!(is_from_medium(&volume, file, 0, 8 * 4096), "seven are cold");
    assert!(
        !is_from_medium(&volume, file, 0, 8 * 4096),
        "several blocks"
    );
    assert!(!is_from_medium(&volume, file, 3 * 4096, 4096));

    assert_eq!(volume.write(file, 3 * 4096, &[8; 4096]), Ok(4096));
    assert!(
        is_from_medium(&volume, file, 3 * 4096, 4096),
        "written anew"
    );
    assert_eq!(volume.write(file, 5 * 4096 + 100, &[8; 2000]), Ok(2000));
    assert!(
        is_from_medium(&volume, file, 5 * 4096, 4096),
        "a part of it"
    );
    assert!(
        !is_from_medium(&volume, file, 6 * 4096, 4096),
        "its neighbour"
    );

    volume.set_timing(false);
    volume.set_timing(true);
    assert!(
        is_from_medium(&volume, file, 6 * 4096, 4096),
        "caches are empty then"
    );
    volume.close(ino);
    volume.close(ino);
    drop(volume);
    scratch.assert_clean();
}
