//! Each routine moves exactly the bytes it was asked to, at every size and alignment.

use super::routines::{
    all, egeria_media_guard_load, egeria_media_guard_store, egeria_media_guard_zero,
    egeria_media_guard_zero_stream,
};

/// Sizes around every branch of the copies.
fn sizes() -> impl Iterator<Item = usize> {
    (0..=330).chain([511, 512, 513, 1000, 4095, 4096, 4097, 9000])
}

#[repr(align(64))]
struct Aligned([u8; 10_240]);

fn pattern() -> Vec<u8> {
    (0..10_240usize).map(|i| (i * 7 + i / 251) as u8).collect()
}

#[test]
fn copies_move_exactly_the_bytes_asked_for() {
    let source = pattern();
    for copy in all().0 {
        for bytes in sizes() {
            for (from, to) in [(0, 0), (1, 0), (0, 1), (3, 63), (33, 17), (64, 65)] {
                let mut target = Aligned([0xEE; 10_240]);
                // SAFETY: both ranges lie inside their buffers.
                let fault = unsafe {
                    copy(
                        target.0.as_mut_ptr().add(to),
                        source.as_ptr().add(from),
                        bytes,
                    )
                };
                assert_eq!(fault, 0);
                assert_eq!(
                    target.0[to..to + bytes],
                    source[from..from + bytes],
                    "{bytes}"
                );
                assert!(target.0[..to].iter().all(|&b| b == 0xEE), "{bytes} before");
                assert!(
                    target.0[to + bytes..].iter().all(|&b| b == 0xEE),
                    "{bytes} after"
                );
            }
        }
    }
}

#[test]
fn non_temporal_copies_move_whole_lines() {
    let source = pattern();
    for stream in all().1 {
        for lines in [1usize, 2, 3, 7, 64, 128] {
            for from in [0, 1, 16, 33] {
                let mut target = Aligned([0xEE; 10_240]);
                let bytes = lines * 64;
                // SAFETY: both ranges lie inside their buffers; the target is aligned.
                let fault = unsafe {
                    stream(
                        target.0.as_mut_ptr().add(64),
                        source.as_ptr().add(from),
                        bytes,
                    )
                };
                assert_eq!(fault, 0);
                assert_eq!(target.0[64..64 + bytes], source[from..from + bytes]);
                assert!(target.0[..64].iter().all(|&b| b == 0xEE));
                assert!(target.0[64 + bytes..].iter().all(|&b| b == 0xEE));
            }
        }
    }
}

#[test]
fn zeros_words_and_flushes_touch_only_their_range() {
    let mut target = Aligned([0xEE; 10_240]);
    let base = target.0.as_mut_ptr();
    // SAFETY: all ranges lie inside the buffer.
    unsafe {
        assert_eq!(egeria_media_guard_zero(base.add(5), 11), 0);
        assert_eq!(egeria_media_guard_zero_stream(base.add(128), 192), 0);
        assert_eq!(
            egeria_media_guard_store(base.add(1024), 0x0102_0304_0506_0708),
            0
        );
        let loaded = egeria_media_guard_load(base.add(1024));
        assert_eq!((loaded.fault, loaded.value), (0, 0x0102_0304_0506_0708));
        for flush in all().2 {
            assert_eq!(flush(base, 160), 0);
        }
    }
    let zero = |i: usize| (5..16).contains(&i) || (128..320).contains(&i);
    for (i, &byte) in target
        .0
        .iter()
        .enumerate()
        .filter(|(i, _)| !(1024..1032).contains(i))
    {
        assert_eq!(byte, if zero(i) { 0 } else { 0xEE }, "{i}");
    }
}
