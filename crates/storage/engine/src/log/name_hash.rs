//! The hash that finds names in the table of their directory.

/// Up to seven bytes as a word, little-endian. Built without memory stores: a load after narrower stores would wait
/// for them.
fn word_of_few(bytes: &[u8]) -> u64 {
    if let (Some(low), Some(high)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        let high = u64::from(u32::from_le_bytes(*high)) << (8 * (bytes.len() - 4));
        return high | u64::from(u32::from_le_bytes(*low));
    }
    let each = bytes.iter().rev();
    each.fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// Under a seed that is unknown to processes that create names.
pub(crate) fn hash_name(seed: u64, name: &[u8]) -> u64 {
    let mut hash = seed ^ (name.len() as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let (words, rest) = name.as_chunks::<8>();
    let rest = match (rest.is_empty(), name.last_chunk::<8>()) {
        (true, _) => None,
        // The load also contains bytes of the previous word, which are shifted out.
        (false, Some(last)) => Some(u64::from_le_bytes(*last) >> (8 * (8 - rest.len()))),
        (false, None) => Some(word_of_few(rest)),
    };
    let words = words.iter().map(|word| u64::from_le_bytes(*word));
    for word in words.chain(rest) {
        hash = (hash ^ word).wrapping_mul(0xFF51_AFD7_ED55_8CCD);
        hash ^= hash >> 32;
    }
    hash = hash.wrapping_mul(0xC4CE_B9FE_1A85_EC53);
    hash ^ (hash >> 29)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_name_is_hashed_as_a_word_with_zeros_behind() {
        let bytes: Vec<u8> = (1..=64).collect();
        // Takes back what the length does.
        let seed = |length: usize| (length as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        for length in 0..bytes.len() {
            let mut padded = bytes[..length].to_vec();
            padded.resize(length.next_multiple_of(8), 0);
            assert_eq!(
                hash_name(seed(length), &bytes[..length]),
                hash_name(seed(padded.len()), &padded),
                "{length} bytes"
            );
        }
    }
}
