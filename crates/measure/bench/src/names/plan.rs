//! What is measured.

use serde::{Deserialize, Serialize};

/// Most threads of a case.
pub const MAX_THREADS: usize = 2;

/// What a case does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// `open` that creates a file, and `close`.
    Create,
    /// `open` of a file that is there, and `close`.
    Open,
    /// `stat`.
    Stat,
    /// `readdir`: time of each name, with its share of `opendir` and `closedir`.
    Readdir,
    /// `rename` within the directory.
    Rename,
    /// `link`.
    Link,
    /// `unlink` of a file's only name.
    Unlink,
    /// `mkdir`.
    Mkdir,
    /// `truncate` by name, to 4096 bytes and to 0 in turn.
    Truncate,
    /// `write` of 4 KiB to the end of a new file.
    Append,
    /// `open` five directories further down, and `close`.
    OpenDeep,
}

impl Operation {
    /// All, in the order of the table.
    pub const ALL: [Operation; 11] = [
        Operation::Create,
        Operation::Open,
        Operation::OpenDeep,
        Operation::Stat,
        Operation::Readdir,
        Operation::Rename,
        Operation::Link,
        Operation::Unlink,
        Operation::Mkdir,
        Operation::Truncate,
        Operation::Append,
    ];

    /// The name used in options, rows and tables.
    pub fn name(self) -> &'static str {
        match self {
            Operation::Create => "create",
            Operation::Open => "open",
            Operation::Stat => "stat",
            Operation::Readdir => "readdir",
            Operation::Rename => "rename",
            Operation::Link => "link",
            Operation::Unlink => "unlink",
            Operation::Mkdir => "mkdir",
            Operation::Truncate => "truncate",
            Operation::Append => "append",
            Operation::OpenDeep => "open_deep",
        }
    }

    pub fn named(name: &str) -> Option<Operation> {
        Operation::ALL
            .into_iter()
            .find(|operation| operation.name() == name)
    }
}

/// What is measured on a fresh volume, in this order.
pub const FRESH: [Operation; 3] = [Operation::Create, Operation::Rename, Operation::Unlink];

/// Whose directory threads work in.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    Own,
    Shared,
    /// A new directory on a volume that was just made, which grows by every call.
    Fresh,
}

impl Sharing {
    /// The name used in rows and tables.
    pub fn name(self) -> &'static str {
        match self {
            Sharing::Own => "own",
            Sharing::Shared => "shared",
            Sharing::Fresh => "fresh",
        }
    }
}

/// One row of the result.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Case {
    pub operation: Operation,
    /// Threads at once.
    pub threads: usize,
    /// Whose directory they work in.
    pub sharing: Sharing,
    /// Names in each directory.
    pub entries: usize,
}

/// All cases, small directories first: those are filled up later.
pub fn cases(operations: &[Operation], entries: &[usize], threads: usize) -> Vec<Case> {
    let mut ways = vec![(1, Sharing::Own)];
    for threads in 2..=threads {
        ways.extend([(threads, Sharing::Own), (threads, Sharing::Shared)]);
    }
    let mut cases = Vec::new();
    for &entries in entries {
        for &operation in operations {
            cases.extend(ways.iter().map(|&(threads, sharing)| Case {
                operation,
                threads,
                sharing,
                entries,
            }));
        }
    }
    cases
}
