//! Values to bytes and back: postcard's published encoding, with counts bounded before anything is
//! made of them.

use serde::{Deserialize, Serialize};

/// What is wrong with bytes, in a phrase.
pub(crate) struct Damage(pub(crate) String);

impl Damage {
    pub(crate) fn new(what: impl Into<String>) -> Damage {
        Damage(what.into())
    }
}

/// Appends a value.
pub(crate) fn put(bytes: &mut Vec<u8>, value: &impl Serialize) {
    let taken = std::mem::take(bytes);
    *bytes = postcard::to_extend(value, taken).expect("a Vec takes every value of known length");
}

/// Takes values off the front of bytes.
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Cursor<'a> {
        Cursor { rest: bytes }
    }

    /// The next value. `T` must not hold sequences: nothing bounds what those would allocate.
    pub(crate) fn take<T: Deserialize<'a>>(&mut self, what: &str) -> Result<T, Damage> {
        let (value, rest) = postcard::take_from_bytes(self.rest)
            .map_err(|_| Damage(format!("{what} makes no sense")))?;
        self.rest = rest;
        Ok(value)
    }

    /// How many there are of something that takes at least a byte each.
    pub(crate) fn count(&mut self, what: &str, most: usize) -> Result<usize, Damage> {
        let count: u64 = self.take(what)?;
        let most = most.min(self.rest.len());
        match usize::try_from(count) {
            Ok(count) if count <= most => Ok(count),
            _ => Err(Damage(format!("{count} {what}, at most {most} can be"))),
        }
    }

    /// That nothing is left.
    pub(crate) fn finish(self) -> Result<(), Damage> {
        match self.rest.len() {
            0 => Ok(()),
            left => Err(Damage(format!("{left} bytes too many in a frame"))),
        }
    }
}
