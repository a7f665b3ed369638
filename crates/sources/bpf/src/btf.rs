//! Where the fields of the running kernel's structures are: what it says of its types in BTF.

use std::path::Path;

use crate::error::{BpfError, Result};

const MAGIC: u16 = 0xeb9f;
const HEADER_BYTES: usize = 24;
const TYPE_BYTES: usize = 12;
const KIND_STRUCT: u32 = 4;
const KIND_UNION: u32 = 5;
/// Structures without a name inside one another.
const MAX_DEPTH: u32 = 8;

/// The types of a kernel. Nothing of them is trusted: what leads outside is an error.
pub struct Btf {
    types: Vec<u8>,
    strings: Vec<u8>,
    /// Where each type begins; the first has number 1.
    starts: Vec<usize>,
}

impl Btf {
    /// Those of the running kernel.
    ///
    /// # Errors
    /// When it has none, or they make no sense.
    pub fn of_kernel() -> Result<Btf> {
        Btf::of_file(Path::new("/sys/kernel/btf/vmlinux"))
    }

    fn of_file(path: &Path) -> Result<Btf> {
        let bytes = std::fs::read(path).map_err(BpfError::NoBtf)?;
        Btf::read(&bytes)
    }

    /// As the file has them.
    ///
    /// # Errors
    /// When they make no sense.
    pub fn read(bytes: &[u8]) -> Result<Btf> {
        let cut = || BpfError::Btf("it is cut off".to_owned());
        let word = |at| word(bytes, at).ok_or_else(cut);
        if word(0)? as u16 != MAGIC {
            return Err(BpfError::Btf("no BTF of this kind of CPU".to_owned()));
        }
        let header = word(4)? as usize;
        if header < HEADER_BYTES {
            return Err(cut());
        }
        let section = |offset: u32, length: u32| {
            let start = header.checked_add(offset as usize)?;
            bytes.get(start..start.checked_add(length as usize)?)
        };
        let types = section(word(8)?, word(12)?).ok_or_else(cut)?.to_vec();
        let strings = section(word(16)?, word(20)?).ok_or_else(cut)?.to_vec();
        let mut starts = Vec::new();
        let mut at = 0;
        while at < types.len() {
            starts.push(at);
            let info = crate::btf::word(&types, at + 4).ok_or_else(cut)?;
            at += TYPE_BYTES + tail_bytes(info)?;
        }
        if at == types.len() {
            Ok(Btf {
                types,
                strings,
                starts,
            })
        } else {
            Err(cut())
        }
    }

    /// Where a field of a structure begins, in bytes.
    ///
    /// # Errors
    /// When there is no such structure or field.
    pub fn offset(&self, structure: &str, field: &str) -> Result<u32> {
        let named = self.starts.iter().filter(|start| {
            self.kind(**start) == Some(KIND_STRUCT) && self.is_name(**start, structure)
        });
        // One that has the name in some other part of the kernel need not have the field.
        let mut found = named.filter_map(|start| self.member(*start, field, 0));
        found
            .next()
            .ok_or_else(|| BpfError::Btf(format!("no field {field} in struct {structure}")))
    }

    fn kind(&self, start: usize) -> Option<u32> {
        Some(word(&self.types, start + 4)? >> 24 & 0x1f)
    }

    /// Also a field of a structure or union without a name.
    fn member(&self, start: usize, field: &str, depth: u32) -> Option<u32> {
        let info = word(&self.types, start + 4)?;
        let has_bit_fields = info >> 31 == 1;
        for index in 0..(info & 0xffff) as usize {
            let at = start + TYPE_BYTES + index * 12;
            let place = word(&self.types, at + 8)?;
            let bits = match has_bit_fields {
                true if place >> 24 != 0 => continue,
                true => place & 0xff_ffff,
                false => place,
            };
            if self.is_name(at, field) {
                return (bits % 8 == 0).then_some(bits / 8);
            }
            if word(&self.types, at)? == 0 && depth < MAX_DEPTH {
                let number = word(&self.types, at + 4)? as usize;
                let inner = number.checked_sub(1).and_then(|at| self.starts.get(at));
                let inner = inner
                    .filter(|inner| matches!(self.kind(**inner), Some(KIND_STRUCT | KIND_UNION)));
                let found = inner.and_then(|inner| self.member(*inner, field, depth + 1));
                if let Some(offset) = found {
                    return offset.checked_add(bits / 8);
                }
            }
        }
        None
    }

    /// Whether what begins there, a type or a member, has this name.
    fn is_name(&self, start: usize, name: &str) -> bool {
        let offset = word(&self.types, start).map(|offset| offset as usize);
        let text = offset.and_then(|offset| self.strings.get(offset..));
        text.and_then(|text| text.strip_prefix(name.as_bytes()))
            .is_some_and(|rest| rest.first() == Some(&0))
    }
}

/// What follows the head of a type.
fn tail_bytes(info: u32) -> Result<usize> {
    let count = (info & 0xffff) as usize;
    match info >> 24 & 0x1f {
        1 | 14 | 17 => Ok(4),
        2 | 7..=12 | 16 | 18 => Ok(0),
        3 => Ok(12),
        4 | 5 | 15 | 19 => Ok(count * 12),
        6 | 13 => Ok(count * 8),
        kind => Err(BpfError::Btf(format!("kind {kind} of types is not known"))),
    }
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..at.checked_add(4)?)?;
    Some(u32::from_ne_bytes(word.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `struct file { char; struct { long f_inode; }; }`, by words.
    fn small() -> Vec<u8> {
        let strings = b"\0file\0f_inode\0c\0";
        let types: [u32; 17 - 2] = [
            // 1: an integer
            0,
            1 << 24,
            8,
            64, //
            // 2: without a name, at 3 words
            0,
            4 << 24 | 1,
            8,
            6,
            1,
            64, //
            // 3
            1,
            4 << 24 | 1,
            24,
            0,
            2,
        ];
        let mut types = types.to_vec();
        types.push(128);
        let header = [
            u32::from(MAGIC) | 1 << 16,
            24,
            0,
            types.len() as u32 * 4,
            types.len() as u32 * 4,
            strings.len() as u32,
        ];
        let words = header.iter().chain(&types);
        let mut bytes: Vec<u8> = words.flat_map(|word| word.to_ne_bytes()).collect();
        bytes.extend_from_slice(strings);
        bytes
    }

    #[test]
    fn fields_are_found_also_in_structures_without_names() {
        let btf = Btf::read(&small()).unwrap();
        assert_eq!(btf.offset("file", "f_inode").unwrap(), 128 / 8 + 64 / 8);
        assert!(btf.offset("file", "f_ino").is_err());
        assert!(btf.offset("files", "f_inode").is_err());
    }

    #[test]
    fn a_kernel_without_them_is_told_so_in_one_line() {
        let refused = Btf::of_file(Path::new("/nowhere/vmlinux")).err().unwrap();
        assert!(matches!(refused, BpfError::NoBtf(_)), "{refused}");
        let text = refused.to_string();
        assert!(text.contains("a kernel with BTF") && !text.contains('\n'));
    }

    #[test]
    fn damage_is_an_error() {
        let whole = small();
        for length in 0..whole.len() {
            let found = Btf::read(&whole[..length]);
            assert!(found.is_err(), "{length}");
        }
        for at in 0..whole.len() {
            for value in [0, 0x7f, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] = value;
                let _ = Btf::read(&damaged).and_then(|btf| btf.offset("file", "f_inode"));
            }
        }
    }
}
