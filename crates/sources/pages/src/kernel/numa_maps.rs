//! `/proc/PID/numa_maps`: what each mapping of a process has on each node.
//!
//! A line is `ADDRESS POLICY [file=PATH] [heap] [stack] [huge] [anon=N] [dirty=N] … N0=N N1=N kernelpagesize_kB=N`.
//! Numbers are pages of that size, also of transparent huge pages.

use std::collections::HashMap;
use std::io::BufRead;

use egeria_machine::{MAX_NODES, NodeId};

use crate::NodeBytes;

/// Files that are counted separately; the memory of further files is counted as memory of files.
const MAX_FILES: usize = 1 << 16;
/// The kernel's lines are shorter: a path of 4 KiB, each byte escaped, and numbers.
const MAX_LINE_BYTES: u64 = 1 << 16;

/// The memory of a process.
#[derive(Default, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Heap, stacks, changed copies of private mappings.
    pub anonymous: NodeBytes,
    /// Mapped pages of files, those of tmpfs and shared memory included.
    pub files: NodeBytes,
    /// Of `files`, by path as the process sees it.
    pub by_file: HashMap<Vec<u8>, NodeBytes>,
    /// Of all, huge pages of hugetlbfs.
    pub huge_bytes: u64,
    pub mappings: u64,
}

impl Memory {
    /// Reads all lines.
    ///
    /// # Errors
    /// When reading fails; the process may have ended.
    pub fn read(mut lines: impl BufRead) -> std::io::Result<Memory> {
        use std::io::Read;
        let mut memory = Memory::default();
        let mut line = Vec::new();
        loop {
            line.clear();
            let mut limited = (&mut lines).take(MAX_LINE_BYTES);
            if limited.read_until(b'\n', &mut line)? == 0 {
                return Ok(memory);
            }
            memory.add(&Line::of(&line));
        }
    }

    fn add(&mut self, line: &Line<'_>) {
        self.mappings += 1;
        let pages = line.nodes.iter().map(|(_, pages)| *pages);
        let all = pages.fold(0_u64, u64::saturating_add);
        // A private mapping of a file has both kinds. The line does not say on which nodes each kind is, so each node
        // gets its share.
        let of_all = match line.path {
            None => all,
            Some(_) => line.anonymous.min(all),
        };
        let mut files = NodeBytes::default();
        let (mut passed, mut given) = (0_u64, 0);
        for (node, pages) in &line.nodes {
            passed = passed.saturating_add(*pages);
            let share = u128::from(of_all) * u128::from(passed) / u128::from(all.max(1));
            let anonymous = (share as u64 - given).min(*pages);
            given += anonymous;
            let bytes = |pages: u64| pages.saturating_mul(line.page_bytes);
            self.anonymous.add(*node, bytes(anonymous));
            files.add(*node, bytes(pages - anonymous));
        }
        if line.is_huge {
            let bytes = all.saturating_mul(line.page_bytes);
            self.huge_bytes = self.huge_bytes.saturating_add(bytes);
        }
        self.files.add_all(&files);
        let Some(path) = line.path else { return };
        let path = unescaped(path);
        let is_known = self.by_file.contains_key(&path);
        if files.total() > 0 && (is_known || self.by_file.len() < MAX_FILES) {
            self.by_file.entry(path).or_default().add_all(&files);
        }
    }

    /// The bytes on all nodes.
    pub fn by_node(&self) -> NodeBytes {
        let mut all = self.anonymous.clone();
        all.add_all(&self.files);
        all
    }
}

struct Line<'a> {
    path: Option<&'a [u8]>,
    anonymous: u64,
    nodes: Vec<(NodeId, u64)>,
    page_bytes: u64,
    is_huge: bool,
}

impl<'a> Line<'a> {
    fn of(text: &'a [u8]) -> Line<'a> {
        let mut line = Line {
            path: None,
            anonymous: 0,
            nodes: Vec::new(),
            page_bytes: 4096,
            is_huge: false,
        };
        let words = text.split(|byte| byte.is_ascii_whitespace());
        // Address and policy.
        for word in words.skip(2) {
            line.add(word);
        }
        line
    }

    fn add(&mut self, word: &'a [u8]) {
        if let Some(path) = word.strip_prefix(b"file=") {
            self.path = Some(path);
        } else if let Some(count) = word.strip_prefix(b"anon=") {
            self.anonymous = number(count).unwrap_or(0);
        } else if let Some(size) = word.strip_prefix(b"kernelpagesize_kB=") {
            // 16 GiB is the largest page of any machine.
            let size = number(size).filter(|kib| (1..=1 << 24).contains(kib));
            self.page_bytes = size.map_or(self.page_bytes, |kib| kib << 10);
        } else if word == b"huge" {
            self.is_huge = true;
        } else if let Some(share) = word.strip_prefix(b"N") {
            self.nodes.extend(node_pages(share));
        }
    }
}

/// The pages of `0=17`.
fn node_pages(text: &[u8]) -> Option<(NodeId, u64)> {
    let equals = text.iter().position(|byte| *byte == b'=')?;
    let node = u16::try_from(number(&text[..equals])?).ok()?;
    let pages = number(&text[equals + 1..])?;
    (usize::from(node) < MAX_NODES * 16).then_some((NodeId(node), pages))
}

fn number(text: &[u8]) -> Option<u64> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

/// A path without the kernel's escapes: three octal digits after a backslash.
pub(crate) fn unescaped(text: &[u8]) -> Vec<u8> {
    let mut path = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.get(..3).filter(|_| first == b'\\');
        let code = digits.and_then(|digits| std::str::from_utf8(digits).ok());
        let code = code.and_then(|code| u8::from_str_radix(code, 8).ok());
        path.push(code.unwrap_or(first));
        rest = if code.is_some() { &after[3..] } else { after };
    }
    path
}
