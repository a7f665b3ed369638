//! Descriptions of events, as the kernel gives them below `/sys/bus/event_source/devices`.

/// What selects an event, apart from the type of its PMU.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Words {
    pub(crate) config: u64,
    pub(crate) config1: u64,
    pub(crate) config2: u64,
}

impl Words {
    /// Puts a value where a format says, as `config:0-7,32-35`. `None` for what is no format, or a value that has no
    /// room there.
    pub(crate) fn set(&mut self, format: &str, value: u64) -> Option<()> {
        let (word, ranges) = format.trim().split_once(':')?;
        let (mut placed, mut left) = (0_u64, value);
        for range in ranges.split(',') {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            let (first, last): (u32, u32) = (first.parse().ok()?, last.parse().ok()?);
            if first > last || last > 63 {
                return None;
            }
            let width = last - first + 1;
            let mask = u64::MAX >> (64 - width);
            placed |= (left & mask) << first;
            left = left.checked_shr(width).unwrap_or(0);
        }
        let word = match word {
            "config" => &mut self.config,
            "config1" => &mut self.config1,
            "config2" => &mut self.config2,
            _ => return None,
        };
        *word |= placed;
        (left == 0).then_some(())
    }

    /// A description as `event=0xcd,umask=0x1,ldlat=3`; `format` gives the format of each name, and `replaced` another
    /// value for some.
    pub(crate) fn described(
        text: &str,
        format: impl Fn(&str) -> Option<String>,
        replaced: &[(&str, u64)],
    ) -> Option<Words> {
        let mut words = Words::default();
        for term in text.trim().split(',') {
            let (name, value) = term.split_once('=').unwrap_or((term, "1"));
            let other = replaced.iter().find(|(other, _)| *other == name);
            let value = match other {
                Some((_, value)) => *value,
                None => number(value)?,
            };
            match name {
                "config" => words.config |= value,
                "config1" => words.config1 |= value,
                "config2" => words.config2 |= value,
                name => words.set(&format(name)?, value)?,
            }
        }
        Some(words)
    }
}

fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn intel(name: &str) -> Option<String> {
        let format = match name {
            "event" => "config:0-7",
            "umask" => "config:8-15,40-47\n",
            "ldlat" => "config1:0-15",
            _ => return None,
        };
        Some(format.to_owned())
    }

    #[test]
    fn descriptions_become_words() {
        let loads = Words::described("event=0xcd,umask=0x1,ldlat=3\n", intel, &[("ldlat", 30)]);
        let expected = Words {
            config: 0x1cd,
            config1: 30,
            config2: 0,
        };
        assert_eq!(loads, Some(expected));
        let wide = Words::described("event=1,umask=0xfe01", intel, &[]).unwrap();
        assert_eq!(wide.config, 0x1 | 0x01 << 8 | 0xfe << 40);
        for nonsense in [
            "event=0x1cd",
            "event=",
            "event=-1",
            "period=3",
            "",
            "ldlat=0x1ffff",
        ] {
            assert_eq!(Words::described(nonsense, intel, &[]), None, "{nonsense}");
        }
    }

    #[test]
    fn nonsense_is_no_format() {
        for format in [
            "",
            "config",
            "config:",
            "config:7-0",
            "config:0-64",
            "config9:0",
            "config:a",
        ] {
            assert_eq!(Words::default().set(format, 0), None, "{format}");
        }
        let mut whole = Words::default();
        whole.set("config2:0-63", u64::MAX).unwrap();
        assert_eq!(whole.config2, u64::MAX);
    }

    proptest! {
        #[test]
        fn no_text_is_a_panic(text in ".{0,40}", format in ".{0,20}", value: u64) {
            let _ = Words::described(&text, |_| Some(format.clone()), &[]);
            let _ = Words::default().set(&format!("config:{format}"), value);
        }
    }
}
