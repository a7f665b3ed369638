//! Invariant 4: damage in one log costs that file, not others.

use crate::common::*;
use egeria_engine::*;
use std::os::unix::fs::FileExt;

/// What the readable part of a damaged log names is not given to others.
#[test]
fn blocks_of_a_damaged_log_are_not_given_to_others() {
    let scratch = Scratch::new(1, 16 << 20);
    let volume = scratch.attach();
    let made = volume.create(InodeNumber::ROOT, b"victim", &FILE).unwrap();
    let file = volume.open(made.ino, None).unwrap();
    for block in 0..8u64 {
        volume.write(file, block * 4096, &[0xabu8; 4096]).unwrap();
    }
    let block = volume.extents(made.ino).unwrap()[0].block;
    volume.close(made.ino);
    drop(volume);

    // Find the last entry of the log (a write of file block 7) and break it.
    let image = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(&scratch.pools[0])
        .unwrap();
    let mut bytes = vec![0u8; 16 << 20];
    image.read_exact_at(&mut bytes, 0).unwrap();
    let is_write_of_7 = |line: &[u8]| {
        line[0] == 1
            && line[1] == 1
            && line[16..24] == 7u64.to_le_bytes()
            && line[24..32] == 1u64.to_le_bytes()
    };
    let at = bytes
        .chunks_exact(64)
        .position(is_write_of_7)
        .expect("the entry")
        * 64;
    image
        .write_all_at(&[bytes[at + 40] ^ 1], at as u64 + 40)
        .unwrap();

    let volume = scratch.attach();
    let found = volume.lookup(InodeNumber::ROOT, b"victim");
    assert_eq!(
        found,
        Err(Errno(libc::EIO)),
        "damage is told, not guessed around"
    );
    let other = volume.create(InodeNumber::ROOT, b"other", &FILE).unwrap();
    let file = volume.open(other.ino, None).unwrap();
    let mut offset = 0;
    while let Ok(written) = volume.write(file, offset, &[0xcdu8; 65536]) {
        offset += written as u64;
        if written < 65536 {
            break;
        }
    }
    assert!(offset > 8 << 20, "the rest of the volume is writable");
    let mut data = [0u8; 4096];
    image.read_exact_at(&mut data, block * 4096).unwrap();
    assert!(
        data.iter().all(|byte| *byte == 0xab),
        "the victim's data stays where it was"
    );
    volume.close(other.ino);
}
