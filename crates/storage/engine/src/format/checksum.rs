//! CRC-32C of the format. Records and entries are tens of bytes. The library splits data in three for long buffers;
//! for short data this costs more than copying the tail of a block. The result is the same, only the speed differs.

/// Bytes up to which one instruction per word is faster than the library.
#[cfg(target_arch = "x86_64")]
const SHORT_BYTES: usize = 256;

/// CRC-32C of `bytes`.
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c_append(0, bytes)
}

/// CRC-32C of the bytes summed in `crc`, followed by `bytes`.
#[inline]
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() <= SHORT_BYTES && std::arch::is_x86_feature_detected!("sse4.2") {
        return append_short(crc, bytes);
    }
    crc32c::crc32c_append(crc, bytes)
}

/// CRC-32C of the bytes summed in `crc`, followed by these words as little-endian bytes.
#[inline(always)]
pub fn crc32c_words<const COUNT: usize>(crc: u32, words: [u64; COUNT]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("sse4.2") {
        let mut state = u64::from(!crc);
        for word in words {
            // SAFETY: the CPU was asked whether it has the instruction.
            state = unsafe { append_word(state, word) };
        }
        return !(state as u32);
    }
    let bytes = words.map(u64::to_le_bytes);
    crc32c::crc32c_append(crc, bytes.as_flattened())
}

/// The instruction in assembly: an intrinsic could not be inlined into code for every x86-64 CPU.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn append_short(crc: u32, bytes: &[u8]) -> u32 {
    use std::arch::asm;
    let mut state = u64::from(!crc);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        // SAFETY: the CPU was asked whether it has the instruction.
        state = unsafe { append_word(state, u64::from_le_bytes(*word)) };
    }
    for byte in rest {
        // SAFETY: the same instruction for one byte, which the CPU has too; it touches no memory.
        unsafe {
            asm!("crc32 {0:e}, {1}", inout(reg) state, in(reg_byte) *byte, options(pure, nomem, nostack, preserves_flags))
        };
    }
    !(state as u32)
}

/// # Safety
/// The CPU has the instruction.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn append_word(mut state: u64, word: u64) -> u64 {
    // SAFETY: by contract; it touches no memory.
    unsafe {
        std::arch::asm!("crc32 {0:r}, {1:r}", inout(reg) state, in(reg) word, options(pure, nomem, nostack, preserves_flags))
    };
    state
}

#[cfg(test)]
mod tests {
    #[test]
    fn sums_of_words_are_those_of_their_bytes() {
        let words = [1, u64::MAX, 0x0123_4567_89ab_cdef];
        let bytes = words.map(u64::to_le_bytes);
        for seed in [0, 0xdead_beef] {
            let expected = crc32c::crc32c_append(seed, bytes.as_flattened());
            assert_eq!(super::crc32c_words(seed, words), expected);
        }
    }

    #[test]
    fn short_sums_are_the_library_s() {
        let bytes: Vec<u8> = (0..600u32).map(|at| (at * 31 % 253) as u8).collect();
        for length in 0..600 {
            for seed in [0, 1, 0xdead_beef] {
                let expected = crc32c::crc32c_append(seed, &bytes[..length]);
                assert_eq!(
                    super::crc32c_append(seed, &bytes[..length]),
                    expected,
                    "{length} bytes"
                );
            }
        }
    }
}
