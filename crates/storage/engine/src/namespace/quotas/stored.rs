//! Limits as attributes of the root directory have them.

use crate::session::Amounts;

/// Prefix of the attributes of the root.
const ATTRIBUTES: &[u8] = b"user.egeria.quota.";

/// Whether an attribute of the root has the limits of a tree.
pub(crate) fn is_of_quotas(name: &[u8]) -> bool {
    name.starts_with(ATTRIBUTES)
}

/// The attribute of the root with the limits of a tree.
pub(super) fn attribute_of(top: u64) -> Vec<u8> {
    [ATTRIBUTES, top.to_string().as_bytes()].concat()
}

/// Limits as an attribute of the root has them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stored {
    pub(super) top: u64,
    pub(super) generation: u32,
    pub(super) limits: Amounts,
}

impl Stored {
    pub(super) fn name(&self) -> Vec<u8> {
        attribute_of(self.top)
    }

    pub(super) fn value(&self) -> Vec<u8> {
        let Amounts { blocks, inodes } = self.limits;
        format!("{} {blocks} {inodes}", self.generation).into_bytes()
    }

    pub(super) fn parse(name: &[u8], value: &[u8]) -> Option<Stored> {
        let top = std::str::from_utf8(name.strip_prefix(ATTRIBUTES)?).ok()?;
        let mut words = std::str::from_utf8(value).ok()?.split(' ');
        let generation = words.next()?.parse().ok()?;
        let limits = Amounts {
            blocks: words.next()?.parse().ok()?,
            inodes: words.next()?.parse().ok()?,
        };
        let stored = Stored {
            top: top.parse().ok()?,
            generation,
            limits,
        };
        let is_whole = words.next().is_none() && limits != Amounts::default();
        is_whole.then_some(stored)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_limits_come_back_and_nonsense_does_not() {
        let stored = Stored {
            top: 17,
            generation: 3,
            limits: Amounts {
                blocks: 4,
                inodes: 0,
            },
        };
        assert_eq!(stored.value(), b"3 4 0");
        assert_eq!(Stored::parse(&stored.name(), &stored.value()), Some(stored));
        for value in [&b""[..], b"3 4", b"3 4 0 1", b"3 0 0", b"3 -4 0", b"3 4 x"] {
            assert_eq!(Stored::parse(b"user.egeria.quota.17", value), None);
        }
        assert_eq!(Stored::parse(b"user.egeria.quota.x", b"3 4 0"), None);
    }
}
