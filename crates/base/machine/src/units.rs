//! Numbers for people: three significant digits and a unit.

/// A size with a binary unit, as `126 GiB`.
pub fn format_bytes(bytes: u64) -> String {
    const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    scaled(bytes as f64, 1024.0, &UNITS)
}

/// A bandwidth with a decimal unit, as `6.80 GB/s`.
pub fn format_bandwidth(bytes_s: f64) -> String {
    const UNITS: [&str; 6] = ["B/s", "KB/s", "MB/s", "GB/s", "TB/s", "PB/s"];
    scaled(bytes_s, 1000.0, &UNITS)
}

fn scaled(value: f64, step: f64, units: &[&str]) -> String {
    let mut value = value;
    let mut index = 0;
    // 999.5 would print as 1000 with three digits: it belongs to the next unit when that is decimal.
    while value >= step - 0.5 && index + 1 < units.len() {
        value /= step;
        index += 1;
    }
    let digits = match value {
        _ if index == 0 => 0,
        value if value < 9.995 => 2,
        value if value < 99.95 => 1,
        _ => 0,
    };
    format!("{value:.digits$} {}", units[index])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_three_digits_and_binary_units() {
        assert_eq!(format_bytes(0), "0 B");
        assert_eq!(format_bytes(1023), "1023 B");
        assert_eq!(format_bytes(1 << 30), "1.00 GiB");
        assert_eq!(format_bytes(126 << 30), "126 GiB");
        assert_eq!(format_bytes(u64::MAX), "16.0 EiB");
    }

    #[test]
    fn bandwidths_have_three_digits_and_decimal_units() {
        assert_eq!(format_bandwidth(6.8e9), "6.80 GB/s");
        assert_eq!(format_bandwidth(999.9e6), "1.00 GB/s");
        assert_eq!(format_bandwidth(204_800e6), "205 GB/s");
    }
}
