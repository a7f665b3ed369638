//! Durations as people type them.

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
