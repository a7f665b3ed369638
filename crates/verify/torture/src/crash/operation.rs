//! The grammar: one call of the file API on a small tree, in a form that can be saved and run again.

use crate::names::operations;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

operations! {
    /// A new regular file.
    Create = "create" { path: String },
    /// A new directory.
    Mkdir = "mkdir" { path: String },
    /// A symbolic link whose target has so many bytes.
    Symlink = "symlink" { path: String, bytes: usize },
    /// One more name.
    Link = "link" { from: String, to: String },
    /// One name less.
    Unlink = "unlink" { path: String },
    /// An empty directory less.
    Rmdir = "rmdir" { path: String },
    /// A name moves, over what has the new name.
    Rename = "rename" { from: String, to: String },
    /// A name moves, unless the new name is taken.
    RenameNew = "rename-new" { from: String, to: String },
    /// Two names change places.
    Exchange = "exchange" { from: String, to: String },
    /// Bytes at an offset.
    Write = "write" { path: String, at: u64, bytes: usize },
    /// Bytes at the end.
    Append = "append" { path: String, bytes: usize },
    /// Another size.
    Truncate = "truncate" { path: String, bytes: u64 },
    /// Blocks reserved, the file grows.
    Reserve = "reserve" { path: String, at: u64, bytes: u64 },
    /// Blocks reserved, the size stays.
    ReserveBehind = "reserve-behind" { path: String, at: u64, bytes: u64 },
    /// A hole.
    Punch = "punch" { path: String, at: u64, bytes: u64 },
    /// Zeros, the file may grow.
    Zero = "zero" { path: String, at: u64, bytes: u64 },
    /// Other permissions.
    Chmod = "chmod" { path: String, mode: Mode },
    /// Another owner.
    Chown = "chown" { path: String, uid: u32 },
    /// Permissions, owner, size and times at once.
    Attributes = "attributes" { path: String },
    /// Other times.
    Utimens = "utimens" { path: String, time_ns: i64 },
    /// An extended attribute of so many bytes.
    SetXattr = "setxattr" { path: String, name: String, bytes: usize },
    /// An extended attribute less.
    RemoveXattr = "removexattr" { path: String, name: String },
    /// Checksums for what is made in a directory from now on, or none.
    Checksums = "checksums" { path: String, value: String },
    /// Where the data goes of a file, or of what is made in a directory from now on.
    Layout = "layout" { path: String, value: String },
    /// Limits of a directory tree; 0: none.
    Limit = "limit" { path: String, bytes: u64, inodes: u64 },
    /// No limits of a directory tree.
    Unlimit = "unlimit" { path: String },
    /// What of a file lies on one pool goes to another.
    Relocate = "relocate" { path: String, from: u8, to: u8 },
    /// The last name of a file goes while it is open; it stays open.
    UnlinkOpen = "unlink-open" { path: String },
    /// A write to the file that [`Operation::UnlinkOpen`] left.
    WriteOpen = "write-open" { at: u64, bytes: usize },
    /// The last close of that file.
    CloseOpen = "close-open",
}

/// Most bytes that one operation writes.
const MAX_BYTES: usize = 1 << 20;

/// A word of an operation's text.
trait Word: Sized {
    fn read(word: &str) -> Result<Self, String>;
    fn word(&self) -> String;
}

impl Word for String {
    fn read(word: &str) -> Result<String, String> {
        Ok(word.to_owned())
    }

    fn word(&self) -> String {
        self.clone()
    }
}

macro_rules! numbers {
    ($($type:ty),*) => { $(impl Word for $type {
        fn read(word: &str) -> Result<$type, String> {
            word.parse().map_err(|_| format!("{word} is no number here"))
        }

        fn word(&self) -> String {
            self.to_string()
        }
    })* };
}

numbers!(u8, u32, u64, i64);

/// Bytes that are made up in memory.
impl Word for usize {
    fn read(word: &str) -> Result<usize, String> {
        match word.parse() {
            Ok(bytes) if bytes <= MAX_BYTES => Ok(bytes),
            Ok(bytes) => Err(format!(
                "{bytes} bytes are too many, the most is {MAX_BYTES}"
            )),
            Err(_) => Err(format!("{word} is no number here")),
        }
    }

    fn word(&self) -> String {
        self.to_string()
    }
}

/// Permissions, octal.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Mode(pub u32);

impl Word for Mode {
    fn read(word: &str) -> Result<Mode, String> {
        let mode = u32::from_str_radix(word, 8);
        mode.map(Mode)
            .map_err(|_| format!("{word} is no octal number"))
    }

    fn word(&self) -> String {
        format!("{:o}", self.0)
    }
}

impl TryFrom<String> for Operation {
    type Error = String;

    fn try_from(text: String) -> Result<Operation, String> {
        text.parse()
            .map_err(|why| format!("operation \"{text}\": {why}"))
    }
}

impl From<Operation> for String {
    fn from(operation: Operation) -> String {
        operation.to_string()
    }
}
