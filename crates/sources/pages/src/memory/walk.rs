//! The mappings of a process by address, a number of them at a time: some programs have hundreds of thousands.
//!
//! Reading all of them takes the kernel seconds. The files stay open in between, and the kernel goes on where it was.
//! Mappings that lie in the same 2 MiB and have the same policy become one, so that what is remembered is bounded by
//! memory and not by the number of mappings.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::ops::Range;

use egeria_proc::living;

use super::area::{self, Area, MappedFile};

/// The kernel's lines are shorter: a path of 4 KiB, each byte escaped, and numbers.
const MAX_LINE_BYTES: u64 = 1 << 16;
/// Neighbours become one as long as they lie in one block of this size.
const BLOCK_BYTES: usize = 2 << 20;
/// What is read of the kernel at once.
const BUFFER_BYTES: usize = 1 << 16;

/// A mapping, or several small ones, and how much of it was accessed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Part {
    pub(crate) area: Area,
    pub(crate) accessed_bytes: u64,
    /// What huge pages of the kernel's making have.
    pub(crate) huge_bytes: u64,
}

/// Some mappings that follow each other.
#[derive(Debug, Default)]
pub(crate) struct Slice {
    /// Those with pages, by address.
    pub(crate) parts: Vec<Part>,
    /// The addresses that were read.
    pub(crate) range: Range<usize>,
    /// No mapping has the flag that all new ones have, `sd`: bits of written pages were cleared.
    pub(crate) is_tracked: bool,
    pub(crate) is_last: bool,
}

/// How far the mappings of a process were read.
#[derive(Debug)]
pub(crate) struct Walk<F, R> {
    facts: Lines<F>,
    ranges: Lines<R>,
    /// A fact whose mapping was not read yet.
    fact: Option<Area>,
    /// A mapping whose first line was read.
    mapping: Option<Mapping>,
    at: usize,
}

/// What `smaps` says of a mapping; `maps` says only the range.
#[derive(Debug, Default)]
struct Mapping {
    range: Range<usize>,
    file: Option<MappedFile>,
    accessed_bytes: u64,
    huge_bytes: u64,
    is_soft_dirty: bool,
}

/// The walk over a process.
pub(crate) type LiveWalk = Walk<BufReader<File>, BufReader<File>>;

/// Begins with the first mapping. `ranges` is `maps`, or `smaps` for what was accessed.
pub(crate) fn begin(process_id: u32, ranges: &str) -> io::Result<LiveWalk> {
    let open = |name: &str| {
        let file = File::open(living::path(process_id, name))?;
        io::Result::Ok(BufReader::with_capacity(BUFFER_BYTES, file))
    };
    Ok(Walk::of(open("numa_maps")?, open(ranges)?))
}

/// The files that a process has mapped.
pub(crate) fn files(process_id: u32) -> io::Result<HashSet<MappedFile>> {
    let maps = File::open(living::path(process_id, "maps"))?;
    let mut lines = Lines::of(BufReader::with_capacity(BUFFER_BYTES, maps));
    let mut found = HashSet::new();
    while let Some(line) = lines.next()? {
        found.extend(area::file(&String::from_utf8_lossy(line)));
    }
    Ok(found)
}

impl<F: BufRead, R: BufRead> Walk<F, R> {
    /// Of the text of `numa_maps`, and of `maps` or `smaps`.
    pub(crate) fn of(facts: F, ranges: R) -> Walk<F, R> {
        Walk {
            facts: Lines::of(facts),
            ranges: Lines::of(ranges),
            fact: None,
            mapping: None,
            at: 0,
        }
    }

    /// At most this number of further mappings. A mapping in only one of the files appeared or vanished in between.
    pub(crate) fn next(&mut self, most: usize) -> io::Result<Slice> {
        let mut slice = Slice {
            range: self.at..self.at,
            is_tracked: true,
            ..Slice::default()
        };
        let mut joins = false;
        for _ in 0..most {
            let Some(mapping) = self.mapping()? else {
                slice.range.end = usize::MAX;
                slice.is_last = true;
                return Ok(slice);
            };
            slice.range.end = mapping.range.end;
            slice.is_tracked &= !mapping.is_soft_dirty;
            let Some(mut area) = self.fact(&mapping.range)? else {
                continue;
            };
            area.file = mapping.file;
            if area.bytes.is_empty() {
                // Pages that it gets soon would have another policy.
                let last = slice.parts.last();
                joins &= last.is_some_and(|last| has_policy_of(&last.area, &area));
                continue;
            }
            let part = Part {
                area,
                accessed_bytes: mapping.accessed_bytes,
                huge_bytes: mapping.huge_bytes,
            };
            match slice.parts.last_mut().filter(|_| joins) {
                Some(last) if last.continues_in(&part) => last.append(part),
                _ => slice.parts.push(part),
            }
            joins = true;
        }
        self.at = slice.range.end;
        Ok(slice)
    }

    /// The next mapping, and what the lines behind it say.
    fn mapping(&mut self) -> io::Result<Option<Mapping>> {
        loop {
            let Some(line) = self.ranges.next()? else {
                return Ok(self.mapping.take());
            };
            if let Some(mapping) = self.mapping.as_mut()
                && mapping.takes(line)
            {
                continue;
            }
            let line = String::from_utf8_lossy(line);
            let Some(range) = area::range(&line) else {
                continue;
            };
            let next = Mapping {
                range,
                file: area::file(&line),
                ..Mapping::default()
            };
            if let Some(mapping) = self.mapping.replace(next) {
                return Ok(Some(mapping));
            }
        }
    }

    /// What `numa_maps` says of a mapping.
    fn fact(&mut self, range: &Range<usize>) -> io::Result<Option<Area>> {
        loop {
            if self.fact.is_none() {
                let Some(line) = self.facts.next()? else {
                    return Ok(None);
                };
                self.fact = area::area(&String::from_utf8_lossy(line));
                continue;
            }
            match self.fact.take() {
                Some(fact) if fact.range.start > range.start => {
                    self.fact = Some(fact);
                    return Ok(None);
                }
                Some(mut fact) if fact.range.start == range.start => {
                    fact.range.end = range.end;
                    return Ok(Some(fact));
                }
                _ => {}
            }
        }
    }
}

impl Mapping {
    /// Whether this is a line about the mapping, and not the first one of the next. Nearly all lines are counts that
    /// do not matter here.
    fn takes(&mut self, line: &[u8]) -> bool {
        if line.first().is_none_or(|first| !first.is_ascii_uppercase()) {
            return false;
        }
        if let Some(count) = line.strip_prefix(b"Referenced:") {
            self.accessed_bytes = kib(count);
        } else if let Some(count) = line.strip_prefix(b"AnonHugePages:") {
            self.huge_bytes = kib(count);
        } else if let Some(flags) = line.strip_prefix(b"VmFlags:") {
            let mut flags = flags.split(u8::is_ascii_whitespace);
            self.is_soft_dirty = flags.any(|flag| flag == b"sd");
        }
        true
    }
}

/// The bytes of a count in KiB; 0 of what is none.
fn kib(count: &[u8]) -> u64 {
    let text = std::str::from_utf8(count).unwrap_or_default();
    let number = text.split_ascii_whitespace().next();
    let number = number.and_then(|number| number.parse::<u64>().ok());
    number.unwrap_or(0).saturating_mul(1024)
}

impl Part {
    fn continues_in(&self, next: &Part) -> bool {
        let (first, last) = (self.area.range.start, next.area.range.end - 1);
        first / BLOCK_BYTES == last / BLOCK_BYTES && has_policy_of(&self.area, &next.area)
    }

    fn append(&mut self, next: Part) {
        self.area.range.end = next.area.range.end;
        self.accessed_bytes = self.accessed_bytes.saturating_add(next.accessed_bytes);
        self.huge_bytes = self.huge_bytes.saturating_add(next.huge_bytes);
        for (node, bytes) in next.area.bytes {
            let mut known = self.area.bytes.iter_mut();
            match known.find(|(known, _)| *known == node) {
                Some((_, sum)) => *sum = sum.saturating_add(bytes),
                None => self.area.bytes.push((node, bytes)),
            }
        }
    }
}

/// Whether two mappings have pages of one size, where the same owner's policy wants them, and the same users.
fn has_policy_of(one: &Area, other: &Area) -> bool {
    let kind = |area: &Area| {
        (
            area.page_bytes,
            area.is_interleaved,
            area.file,
            area.mappers,
        )
    };
    kind(one) == kind(other) && one.bound_to == other.bound_to
}

/// Lines, none of them without end.
#[derive(Debug)]
struct Lines<L> {
    text: L,
    line: Vec<u8>,
}

impl<L: BufRead> Lines<L> {
    fn of(text: L) -> Lines<L> {
        Lines {
            text,
            line: Vec::new(),
        }
    }

    fn next(&mut self) -> io::Result<Option<&[u8]>> {
        self.line.clear();
        let mut limited = (&mut self.text).take(MAX_LINE_BYTES);
        let read = limited.read_until(b'\n', &mut self.line)?;
        Ok((read > 0).then_some(&self.line[..]))
    }
}

#[cfg(test)]
mod tests;
