//! What a worker's own directory holds after so many steps.

use super::plan::{Own, Step, bytes, step};
use std::collections::{BTreeMap, BTreeSet};

/// Names to files, files to bytes; names of directories.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Oracle {
    pub names: BTreeMap<u64, usize>,
    pub files: Vec<Vec<u8>>,
    pub directories: BTreeSet<u64>,
}

impl Oracle {
    /// After the first `steps` steps.
    pub fn after(worker: u64, steps: u64) -> Oracle {
        let mut oracle = Oracle::default();
        for number in 0..steps {
            oracle.advance(worker, number);
        }
        oracle
    }

    pub fn advance(&mut self, worker: u64, number: u64) {
        if let Step::Own(own) = step(worker, number) {
            self.apply(worker, number, own);
        }
    }

    /// What there may be when a step that writes was cut off between two requests: each ends with a page.
    pub fn parts(&self, worker: u64, number: u64) -> Vec<Oracle> {
        const PAGE_BYTES: usize = 4096;
        let Step::Own(Own::Write {
            name,
            offset,
            bytes: count,
        }) = step(worker, number)
        else {
            return Vec::new();
        };
        if !self.names.contains_key(&name) {
            return Vec::new();
        }
        let (offset, data) = (offset as usize, bytes(worker, number, count));
        let first = (offset / PAGE_BYTES + 1) * PAGE_BYTES;
        let part = |end: usize| {
            let mut part = self.clone();
            let file = part.file(name);
            file.resize(file.len().max(end), 0);
            file[offset..end].copy_from_slice(&data[..end - offset]);
            part
        };
        (first..offset + count)
            .step_by(PAGE_BYTES)
            .map(part)
            .collect()
    }

    fn file(&mut self, name: u64) -> &mut Vec<u8> {
        let next = self.files.len();
        let index = *self.names.entry(name).or_insert(next);
        if index == next {
            self.files.push(Vec::new());
        }
        &mut self.files[index]
    }

    fn apply(&mut self, worker: u64, number: u64, own: Own) {
        match own {
            Own::Write {
                name,
                offset,
                bytes: count,
            } if self.names.contains_key(&name) => {
                let (offset, data) = (offset as usize, bytes(worker, number, count));
                let file = self.file(name);
                if file.len() < offset + count {
                    file.resize(offset + count, 0);
                }
                file[offset..offset + count].copy_from_slice(&data);
            }
            // A name that is not there is made; nothing else happens in that step.
            Own::Write { name, .. } => {
                self.file(name);
            }
            Own::Append { name, bytes: count } if self.names.contains_key(&name) => {
                let data = bytes(worker, number, count);
                self.file(name).extend(data);
            }
            Own::Truncate { name, bytes } if self.names.contains_key(&name) => {
                self.file(name).resize(bytes as usize, 0);
            }
            Own::Punch {
                name,
                offset,
                bytes,
            } if self.names.contains_key(&name) => {
                let file = self.file(name);
                let end = ((offset + bytes) as usize).min(file.len());
                if (offset as usize) < end {
                    file[offset as usize..end].fill(0);
                }
            }
            Own::Link { name, other } if !self.names.contains_key(&other) => {
                if let Some(index) = self.names.get(&name).copied() {
                    self.names.insert(other, index);
                }
            }
            Own::Unlink { name } => {
                self.names.remove(&name);
            }
            Own::Rename { name, other } => {
                // Two names of one file: rename does nothing.
                if let Some(index) = self.names.get(&name).copied()
                    && self.names.get(&other) != Some(&index)
                {
                    self.names.remove(&name);
                    self.names.insert(other, index);
                }
            }
            Own::Directory { name } if self.directories.remove(&name) => {}
            Own::Directory { name } => {
                self.directories.insert(name);
            }
            _ => {}
        }
    }

    /// Bytes of a name's file.
    pub fn content(&self, name: u64) -> Option<&[u8]> {
        let index = self.names.get(&name)?;
        Some(self.files[*index].as_slice())
    }

    /// Whether no other name is the same file's.
    pub fn is_only_name(&self, name: u64) -> bool {
        let index = self.names.get(&name);
        self.names
            .values()
            .filter(|file| Some(*file) == index)
            .count()
            == 1
    }

    /// Whether both hold the same, whatever files are called inside.
    pub fn is_like(&self, other: &Oracle) -> bool {
        self.directories == other.directories && self.picture() == other.picture()
    }

    /// Whether it is what a write in place, cut off, may have made of one: each byte is of the one or of the other.
    pub fn is_between(&self, one: &Oracle, other: &Oracle) -> bool {
        let (found, one_picture, other_picture) = (self.picture(), one.picture(), other.picture());
        let same_names = |one: &[(u64, u64, &[u8])], other: &[(u64, u64, &[u8])]| {
            let name = |entry: &(u64, u64, &[u8])| (entry.0, entry.1, entry.2.len());
            one.iter().map(name).eq(other.iter().map(name))
        };
        let bytes = found.iter().zip(&one_picture).zip(&other_picture);
        self.directories == one.directories
            && one.directories == other.directories
            && same_names(&found, &one_picture)
            && same_names(&found, &other_picture)
            && bytes
                .into_iter()
                .all(|(((.., found), (.., one)), (.., other))| {
                    let bytes = found.iter().zip(*one).zip(*other);
                    bytes
                        .into_iter()
                        .all(|((found, one), other)| found == one || found == other)
                })
    }

    /// The same whatever files were called inside.
    pub fn picture(&self) -> Vec<(u64, u64, &[u8])> {
        let first = |index: usize| self.names.iter().find(|(_, file)| **file == index);
        self.names
            .iter()
            .map(|(name, index)| {
                let alias = first(*index).map_or(0, |(name, _)| *name);
                (*name, alias, self.files[*index].as_slice())
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_that_was_cut_off_ends_with_a_page() {
        let (mut oracle, mut seen) = (Oracle::default(), 0);
        for number in 0..400 {
            for part in oracle.parts(5, number) {
                let Step::Own(Own::Write { name, offset, .. }) = step(5, number) else {
                    panic!("step {number} is no write");
                };
                let mut whole = oracle.clone();
                whole.advance(5, number);
                let (part, whole) = (part.content(name).unwrap(), whole.content(name).unwrap());
                let before = oracle.content(name).unwrap();
                let end = (offset as usize..whole.len())
                    .find(|at| part.get(*at) != whole.get(*at))
                    .unwrap_or(part.len());
                assert!(end > offset as usize, "step {number}");
                assert!(part.len() == before.len() || part.len() % 4096 == 0);
                seen += 1;
            }
            oracle.advance(5, number);
        }
        assert!(seen > 10, "{seen}");
    }
}
