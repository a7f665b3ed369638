//! What steps answer.

use crate::call::{Answer, Errno};
use std::fmt;

/// What a step answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// What the call returned, or -1.
    pub value: i64,
    /// Why it failed: an errno, or one of the numbers below.
    pub error: i32,
    /// Of the data that it brought.
    pub hash: u64,
}

/// There is no such descriptor or mapping here.
pub const NOTHING_THERE: i32 = 10_000;
/// Beginning of the numbers for signals.
pub const SIGNAL: i32 = 20_000;

impl fmt::Display for Outcome {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = self.value;
        match self.error {
            0 => write!(formatter, "{value}")?,
            NOTHING_THERE => return formatter.write_str("nothing is there"),
            SIGNAL.. => {
                let name = crate::process::signal_name(self.error - SIGNAL);
                write!(formatter, "{name} after {value} bytes")?;
            }
            _ => return write!(formatter, "{:?}", Errno(self.error)),
        }
        match self.hash {
            0 => Ok(()),
            hash => write!(formatter, " (data {:08x})", hash >> 32),
        }
    }
}

/// FNV-1a over words, the rest byte by byte.
pub(super) fn hash(data: &[u8]) -> u64 {
    let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x100_0000_01b3).rotate_left(29);
    let (words, rest) = data.as_chunks::<8>();
    let words = words.iter().map(|word| u64::from_ne_bytes(*word));
    let rest = rest.iter().map(|byte| u64::from(*byte));
    words.chain(rest).fold(0xcbf2_9ce4_8422_2325, mix)
}

pub(super) fn outcome(answer: Answer) -> Outcome {
    match answer {
        Ok(value) => Outcome {
            value,
            ..Outcome::default()
        },
        Err(Errno(error)) => Outcome {
            value: -1,
            error,
            hash: 0,
        },
    }
}

pub(super) fn done(answer: Answer<()>) -> Outcome {
    outcome(answer.map(|()| 0))
}

pub(super) fn nothing_there() -> Outcome {
    outcome(Err(Errno(NOTHING_THERE)))
}

pub(super) fn touched(count: usize, signal: i32, hash: u64) -> Outcome {
    Outcome {
        value: count as i64,
        error: if signal == 0 { 0 } else { SIGNAL + signal },
        hash,
    }
}
