//! What random programs do, step by step.

use libc::{O_APPEND, O_CREAT, O_EXCL, O_TRUNC, PROT_READ, PROT_WRITE};

/// Names that files can have.
pub const FILES: usize = 3;
/// Descriptors that an actor can have open.
pub const SLOTS: usize = 4;
/// Mappings that an actor can have.
pub const MAPS: usize = 3;
/// Most steps of a program, those that look at everything in the end included.
pub const MAX_STEPS: usize = 64;
pub const PAGE: usize = 4096;

/// Who the two actors are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actors {
    /// Two threads, with descriptors and mappings in common.
    Threads,
    /// Two processes; the second begins as a copy of the first before this step.
    ProcessesFrom(usize),
}

/// Where data comes from, or goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Memory {
    /// Memory of the program alone.
    Own,
    /// A mapping, and the byte in it.
    Mapped(usize, usize),
}

/// One thing that a program does. Numbers are those of names, descriptors and mappings; bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    Open {
        slot: usize,
        file: usize,
        flags: Flags,
    },
    Close {
        slot: usize,
    },
    Write {
        slot: usize,
        bytes: usize,
        from: Memory,
    },
    WriteAt {
        slot: usize,
        at: usize,
        bytes: usize,
        from: Memory,
    },
    WriteParts {
        slot: usize,
        bytes: usize,
        from: Memory,
    },
    Read {
        slot: usize,
        bytes: usize,
        to: Memory,
    },
    ReadAt {
        slot: usize,
        at: usize,
        bytes: usize,
        to: Memory,
    },
    Seek {
        slot: usize,
        at: usize,
        whence: i32,
    },
    Truncate {
        file: usize,
        size: usize,
    },
    TruncateOpen {
        slot: usize,
        size: usize,
    },
    Allocate {
        slot: usize,
        mode: i32,
        at: usize,
        bytes: usize,
    },
    Sync {
        slot: usize,
        data_alone: bool,
    },
    Map {
        map: usize,
        slot: usize,
        page: usize,
        pages: usize,
        access: Access,
        shared: bool,
    },
    Unmap {
        map: usize,
    },
    SyncMap {
        map: usize,
    },
    Load {
        map: usize,
        at: usize,
        bytes: usize,
    },
    Store {
        map: usize,
        at: usize,
        bytes: usize,
    },
    CopyRange {
        from: usize,
        at: usize,
        to: usize,
        to_at: usize,
        bytes: usize,
    },
    SendFile {
        from: usize,
        at: usize,
        to: usize,
        bytes: usize,
    },
    Rename {
        from: usize,
        to: usize,
    },
    Link {
        from: usize,
        to: usize,
    },
    Unlink {
        file: usize,
    },
    Size {
        file: usize,
    },
    SizeOpen {
        slot: usize,
    },
    List,
    /// All of a file, through an open of its own.
    Content {
        file: usize,
    },
    /// The same, as programs see it that no library helps.
    ContentPastLibraries {
        file: usize,
    },
}

/// Flags of `open`.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Flags(pub i32);

impl std::fmt::Debug for Flags {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let access = ["O_RDONLY", "O_WRONLY", "O_RDWR"];
        formatter.write_str(access[(self.0 & 3) as usize])?;
        for (flag, name) in [
            (O_CREAT, "O_CREAT"),
            (O_EXCL, "O_EXCL"),
            (O_TRUNC, "O_TRUNC"),
            (O_APPEND, "O_APPEND"),
        ] {
            if self.0 & flag != 0 {
                write!(formatter, "|{name}")?;
            }
        }
        Ok(())
    }
}

/// Protection of a mapping.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Access(pub i32);

impl std::fmt::Debug for Access {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(match self.0 {
            PROT_READ => "PROT_READ",
            PROT_WRITE => "PROT_WRITE",
            _ => "PROT_READ|PROT_WRITE",
        })
    }
}

/// An action, and which of the two does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// 0 or 1.
    pub actor: usize,
    pub action: Action,
}

/// A program of two actors, who take turns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// The number that it was made from, from which its data comes too.
    pub seed: u64,
    pub actors: Actors,
    /// What they do, in this order.
    pub steps: Vec<Step>,
}
