//! CRC-32C of the format. Records and entries are tens of bytes: the library's three-way split is made
//! for long buffers, and for these costs more than the copy of a block's tail. Same sums, other speed.

/// Bytes up to which one instruction per word is faster than the library.
#[cfg(target_arch = "x86_64")]
const SHORT_BYTES: usize = 256;

/// CRC-32C of `bytes`.
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc32c_append(0, bytes)
}

/// CRC-32C of what `crc` is the sum of, and then `bytes`.
#[inline]
pub fn crc32c_append(crc: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if bytes.len() <= SHORT_BYTES && std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the CPU has the instruction, just asked.
        return unsafe { append_short(crc, bytes) };
    }
    crc32c::crc32c_append(crc, bytes)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "sse4.2")]
fn append_short(crc: u32, bytes: &[u8]) -> u32 {
    use std::arch::x86_64::{_mm_crc32_u8, _mm_crc32_u64};
    let mut state = u64::from(!crc);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        state = _mm_crc32_u64(state, u64::from_le_bytes(*word));
    }
    let mut state = state as u32;
    for byte in rest {
        state = _mm_crc32_u8(state, *byte);
    }
    !state
}

#[cfg(test)]
mod tests {
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
