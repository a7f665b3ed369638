//! Sizes as people type and read them.

/// The bytes that a size like `64M`, `2GiB`, `1.5G`, `4096` or `1TB` means.
///
/// `K`, `M`, `G`, `T`, `P` and `KiB` … are powers of 1024, `KB` … are powers of 1000.
///
/// # Errors
/// One line that names the text and the hint.
pub fn parse(text: &str) -> Result<u64, String> {
    let wrong = || {
        format!("{text:?} is no size; write bytes, or a number with K, M, G or T, as 64M or 2GiB")
    };
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let factor = unit_bytes(unit).ok_or_else(wrong)?;
    let bytes = match number.split_once('.') {
        None => number
            .parse::<u128>()
            .map_err(|_| wrong())?
            .checked_mul(factor),
        Some((whole, fraction)) => fractional(whole, fraction, factor),
    };
    let bytes = bytes.ok_or_else(wrong)?;
    u64::try_from(bytes)
        .ok()
        .filter(|&bytes| bytes <= i64::MAX as u64)
        .ok_or_else(|| format!("{text:?} is larger than any file can be; choose a smaller size"))
}

/// `whole.fraction` of `factor`, rounded down, without floating point.
fn fractional(whole: &str, fraction: &str, factor: u128) -> Option<u128> {
    if whole.is_empty() || fraction.is_empty() || fraction.len() > 9 {
        return None;
    }
    let scale = 10_u128.pow(fraction.len() as u32);
    let whole = whole.parse::<u128>().ok()?.checked_mul(factor)?;
    let part = fraction.parse::<u128>().ok()?.checked_mul(factor)? / scale;
    whole.checked_add(part)
}

fn unit_bytes(unit: &str) -> Option<u128> {
    let unit = unit.trim_start().to_ascii_uppercase();
    if unit.is_empty() || unit == "B" {
        return Some(1);
    }
    let exponent = "KMGTP".find(unit.chars().next()?)? as u32 + 1;
    match &unit[1..] {
        "" | "IB" => Some(1024_u128.pow(exponent)),
        "B" => Some(1000_u128.pow(exponent)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_and_decimal_units_are_told_apart() {
        assert_eq!(parse("4096"), Ok(4096));
        assert_eq!(parse("64M"), Ok(64 << 20));
        assert_eq!(parse("2GiB"), Ok(2 << 30));
        assert_eq!(parse("2 gib"), Ok(2 << 30));
        assert_eq!(parse("1TB"), Ok(1_000_000_000_000));
        assert_eq!(parse("1.5G"), Ok(3 << 29));
        assert_eq!(parse("7b"), Ok(7));
    }

    #[test]
    fn nonsense_is_one_line_with_a_hint() {
        for text in [
            "", "G", "x", "1.G", ".5G", "1X", "1GiBs", "-1", "1.2.3G", "1e9", "é", "1é",
        ] {
            let line = parse(text).unwrap_err();
            assert!(
                line.contains("64M") && !line.contains('\n'),
                "{text}: {line}"
            );
        }
    }

    #[test]
    fn sizes_beyond_a_file_offset_are_refused() {
        for text in [
            "9223372036854775808",
            "8388608T",
            "99999999999999999999999999999999999999999P",
            "16384P",
        ] {
            let line = parse(text).unwrap_err();
            assert!(!line.contains('\n'), "{line}");
        }
        assert_eq!(parse("9223372036854775807"), Ok(i64::MAX as u64));
    }
}
