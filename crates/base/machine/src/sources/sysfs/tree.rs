//! A replaceable root with the kernel's files below it.

use std::path::{Path, PathBuf};

use crate::check::values::MAX_BYTES;
use crate::sources::input;

/// The kernel's files are a page; cpulist and distance of the largest machines a few.
pub(super) const MAX_FILE_BYTES: u64 = 1 << 16;
/// More directory entries than any machine has; bounds what a hostile tree may cost.
const MAX_ENTRIES: usize = 4096;
const MAX_WARNINGS: usize = 64;

/// The tree being read, and what was odd in it.
pub(crate) struct Tree<'a> {
    pub(super) root: &'a Path,
    pub(super) warnings: Vec<String>,
}

impl<'a> Tree<'a> {
    pub(super) fn new(root: &'a Path) -> Tree<'a> {
        Tree {
            root,
            warnings: Vec::new(),
        }
    }

    pub(crate) fn path(&self, below_root: &str) -> PathBuf {
        self.root.join(below_root)
    }

    pub(crate) fn warn(&mut self, path: &Path, problem: impl std::fmt::Display) {
        if self.warnings.len() < MAX_WARNINGS {
            self.warnings.push(format!("{}: {problem}", path.display()));
        }
    }

    /// The text of an extra file: none when it is not there, or cannot be read (with a warning).
    pub(crate) fn extra_text(&mut self, path: &Path) -> Option<String> {
        if !path.exists() {
            return None;
        }
        match input::read_text(path, MAX_FILE_BYTES, "it is ignored") {
            Ok(text) => Some(text.trim().to_owned()),
            Err(error) => {
                if self.warnings.len() < MAX_WARNINGS {
                    self.warnings.push(error.to_string());
                }
                None
            }
        }
    }

    /// A number in an extra file: decimal, or hexadecimal after `0x`.
    pub(crate) fn extra_number(&mut self, path: &Path) -> Option<i64> {
        let text = self.extra_text(path)?;
        let number = match text.strip_prefix("0x") {
            Some(digits) => i64::from_str_radix(digits, 16).ok(),
            None => text.parse().ok(),
        };
        if number.is_none() {
            let shown: String = text.chars().take(20).collect();
            self.warn(
                path,
                format_args!("{shown:?} is not a number; it is ignored"),
            );
        }
        number
    }

    /// A size in an extra file, bytes.
    pub(crate) fn extra_bytes(&mut self, path: &Path) -> Option<u64> {
        let number = self.extra_number(path)?;
        let bytes = u64::try_from(number)
            .ok()
            .filter(|&bytes| bytes <= MAX_BYTES);
        if bytes.is_none() {
            self.warn(path, format_args!("{number} is not a size; it is ignored"));
        }
        bytes
    }

    /// Names in a directory that are `prefix` and a number, by that number; none when there is
    /// no such directory.
    pub(crate) fn numbered(&self, directory: &Path, prefix: &str) -> Vec<(u16, String)> {
        let mut found: Vec<(u16, String)> = entries(directory)
            .into_iter()
            .filter_map(|name| Some((numbered_name(&name, prefix)?, name)))
            .collect();
        found.sort_unstable();
        found
    }
}

/// Names in a directory, at most [`MAX_ENTRIES`], sorted; names that are not UTF-8 are left out.
pub(crate) fn entries(directory: &Path) -> Vec<String> {
    let Ok(listing) = std::fs::read_dir(directory) else {
        return Vec::new();
    };
    let names = listing
        .take(MAX_ENTRIES)
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut names: Vec<String> = names.collect();
    names.sort_unstable();
    names
}

/// The number in a name such as `node12`; none for other names.
fn numbered_name(name: &str, prefix: &str) -> Option<u16> {
    let digits = name.strip_prefix(prefix)?;
    let canonical = digits == "0" || !digits.starts_with('0');
    let all_digits = digits.bytes().all(|byte| byte.is_ascii_digit());
    (canonical && all_digits).then(|| digits.parse().ok())?
}
