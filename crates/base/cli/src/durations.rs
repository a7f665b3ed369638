//! Durations as people type them.

use std::time::Duration;

/// Reads a time with its unit: `500ms`, `90s`, `20m` or `2h`, at most 1,000 hours.
///
/// # Errors
/// One line that names the text and the units.
pub fn parse(text: &str) -> Result<Duration, String> {
    const UNITS: [(&str, f64); 4] = [("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    const MAX_S: f64 = 3.6e6;
    let seconds = UNITS.iter().find_map(|(unit, each_s)| {
        let number = text.strip_suffix(unit)?.parse::<f64>().ok()?;
        Some(number * each_s)
    });
    let fits = seconds.filter(|seconds| (1e-3..=MAX_S).contains(seconds));
    fits.map(Duration::from_secs_f64).ok_or_else(|| {
        format!("{text:?} is no time; write a number with its unit, as 90s, 20m or 2h")
    })
}

/// Reads milliseconds of a window.
///
/// # Errors
/// One line that names the text and the range.
pub fn window_ns(text: &str) -> Result<u64, String> {
    const NS_PER_MS: f64 = 1e6;
    let number = text.parse::<f64>().ok();
    number
        .map(|number| number * NS_PER_MS)
        .filter(|window_ns| (NS_PER_MS..=3.6e12).contains(window_ns))
        .map(|window_ns| window_ns as u64)
        .ok_or_else(|| format!("{text:?} is no window; write milliseconds, 1 to 3600000"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(parse("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(parse("2h"), Ok(Duration::from_secs(7200)));
        for text in ["", "5", "m", "-1s", "0s", "nans", "1e9h", "3 days"] {
            assert!(parse(text).unwrap_err().contains("20m"), "{text}");
        }
    }
}
