//! Numbers and panics for people.

/// A whole number with its thousands apart.
pub fn thousands(value: f64) -> String {
    let digits = format!("{value:.0}");
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Three figures and a decimal unit of bytes.
pub fn bytes(value: f64) -> String {
    let mut value = value;
    for unit in ["B", "kB", "MB", "GB"] {
        if value < 999.5 {
            let places = match value {
                _ if unit == "B" || value >= 99.95 => 0,
                _ if value >= 9.995 => 1,
                _ => 2,
            };
            return format!("{value:.places$} {unit}");
        }
        value /= 1000.0;
    }
    format!("{value:.2} TB")
}

/// What a panic said.
pub fn message_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
    text.unwrap_or_else(|| "without a word".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_people_write_them() {
        assert_eq!(thousands(0.0), "0");
        assert_eq!(thousands(999.0), "999");
        assert_eq!(thousands(1_234_567.4), "1,234,567");
        assert_eq!(bytes(0.0), "0 B");
        assert_eq!(bytes(999.4), "999 B");
        assert_eq!(bytes(999.6), "1.00 kB");
        assert_eq!(bytes(12_345_678.0), "12.3 MB");
        assert_eq!(bytes(4.2e15), "4200.00 TB");
    }
}
