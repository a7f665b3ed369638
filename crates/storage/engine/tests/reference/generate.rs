//! Generators: operations as numbers that the harness resolves against what exists at that moment, so
//! that every sequence, also a shrunk one, makes sense.

use egeria_engine::{AllocateMode, RenameMode, TimeChange, XattrMode};
use proptest::prelude::*;

/// One of several things that exist; taken modulo their number.
pub type Pick = u16;

/// A name of a directory entry.
#[derive(Clone, Debug)]
pub enum NamePick {
    /// One of few, so that they collide.
    Common(u8),
    /// One that is there.
    Existing(Pick),
    /// Long, in several cache lines.
    Long(u8),
    /// Empty, dots, too long, with a slash.
    Odd(u8),
}

/// A directory: mostly one that lives, else any inode number ever seen.
#[derive(Clone, Debug)]
pub enum DirectoryPick {
    Living(Pick),
    Any(Pick),
}

/// An offset in a file.
#[derive(Clone, Debug)]
pub enum Place {
    /// Around a boundary of the index or of the format.
    Near(u8, i8),
    /// Around the end of the file.
    End(i32),
    /// Within the first blocks.
    Low(u32),
}

#[derive(Clone, Debug)]
pub enum Operation {
    Create {
        directory: DirectoryPick,
        name: NamePick,
        kind: u8,
        permissions: u16,
        owner: u8,
        open: bool,
    },
    Unnamed {
        directory: DirectoryPick,
    },
    Symlink {
        directory: DirectoryPick,
        name: NamePick,
        length: u16,
    },
    Link {
        node: Pick,
        directory: DirectoryPick,
        name: NamePick,
    },
    Unlink {
        directory: DirectoryPick,
        name: NamePick,
    },
    RemoveDirectory {
        directory: DirectoryPick,
        name: NamePick,
    },
    Rename {
        from: (DirectoryPick, NamePick),
        to: (DirectoryPick, NamePick),
        mode: RenameMode,
    },
    Lookup {
        directory: DirectoryPick,
        name: NamePick,
    },
    ReadLink {
        node: Pick,
    },
    Walk {
        directory: DirectoryPick,
        entries: u8,
    },
    Open {
        node: Pick,
        generation: Option<bool>,
    },
    Close {
        handle: Pick,
    },
    Write {
        handle: Pick,
        place: Place,
        length: u32,
        seed: u8,
    },
    Append {
        handle: Pick,
        length: u32,
        seed: u8,
    },
    Read {
        handle: Pick,
        place: Place,
        length: u32,
    },
    Truncate {
        node: Pick,
        place: Place,
    },
    Allocate {
        handle: Pick,
        place: Place,
        length: u32,
        mode: AllocateMode,
    },
    Seek {
        handle: Pick,
        place: Place,
    },
    Attributes {
        node: Pick,
        permissions: Option<u16>,
        owner: Option<u8>,
        group: Option<u8>,
        atime: Option<TimeChange>,
        mtime: Option<TimeChange>,
        clears: u32,
    },
    SetXattr {
        node: Pick,
        name: u8,
        length: u16,
        mode: XattrMode,
    },
    GetXattr {
        node: Pick,
        name: u8,
    },
    RemoveXattr {
        node: Pick,
        name: u8,
    },
    Space,
    Reattach {
        check: bool,
    },
}

/// How often each family comes.
#[derive(Clone, Copy)]
pub struct Weights {
    names: u32,
    data: u32,
    attributes: u32,
}

impl Weights {
    pub const ALL: Weights = Weights {
        names: 10,
        data: 10,
        attributes: 6,
    };
    pub const NAMES: Weights = Weights {
        names: 20,
        data: 1,
        attributes: 2,
    };
    pub const DATA: Weights = Weights {
        names: 2,
        data: 20,
        attributes: 1,
    };
}

fn name() -> impl Strategy<Value = NamePick> {
    prop_oneof![
        6 => (0..6u8).prop_map(NamePick::Common),
        6 => any::<u16>().prop_map(NamePick::Existing),
        2 => (0..4u8).prop_map(NamePick::Long),
        1 => (0..6u8).prop_map(NamePick::Odd),
    ]
}

fn directory() -> impl Strategy<Value = DirectoryPick> {
    prop_oneof![
        20 => any::<u16>().prop_map(DirectoryPick::Living),
        1 => any::<u16>().prop_map(DirectoryPick::Any),
    ]
}

fn place() -> impl Strategy<Value = Place> {
    prop_oneof![
        4 => (any::<u8>(), -5..6i8).prop_map(|(base, by)| Place::Near(base, by)),
        3 => (-9000..9000i32).prop_map(Place::End),
        1 => Just(Place::End(0)),
        4 => (0..60_000u32).prop_map(Place::Low),
    ]
}

fn length() -> impl Strategy<Value = u32> {
    prop_oneof![
        3 => 0..200u32,
        3 => 3900..4300u32,
        2 => (1..12u32).prop_map(|blocks| blocks * 4096),
        3 => 0..80_000u32,
        1 => (2u32 << 20) - 5..(2 << 20) + 5000,
    ]
}

fn allocate_mode() -> impl Strategy<Value = AllocateMode> {
    use AllocateMode::*;
    prop_oneof![
        Just(Extend),
        Just(KeepSize),
        Just(PunchHole),
        Just(ZeroRange),
        Just(ZeroRangeKeepSize)
    ]
}

fn time() -> impl Strategy<Value = TimeChange> {
    prop_oneof![
        Just(TimeChange::Now),
        any::<i64>().prop_map(TimeChange::At),
        (0..2_000_000_000_000_000_000i64).prop_map(TimeChange::At)
    ]
}

fn name_operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    let mode = prop_oneof![
        3 => Just(RenameMode::Replace),
        1 => Just(RenameMode::NoReplace),
        2 => Just(RenameMode::Exchange)
    ];
    prop_oneof![
        8 => (directory(), name(), 0..10u8, 0..0o10000u16, 0..3u8, any::<bool>()).prop_map(
            |(directory, name, kind, permissions, owner, open)| Create { directory, name, kind, permissions, owner, open }
        ),
        1 => directory().prop_map(|directory| Unnamed { directory }),
        1 => (directory(), name(), prop_oneof![0..100u16, 4090..4100u16])
            .prop_map(|(directory, name, length)| Symlink { directory, name, length }),
        3 => (any::<u16>(), directory(), name())
            .prop_map(|(node, directory, name)| Link { node, directory, name }),
        4 => (directory(), name()).prop_map(|(directory, name)| Unlink { directory, name }),
        2 => (directory(), name()).prop_map(|(directory, name)| RemoveDirectory { directory, name }),
        8 => ((directory(), name()), (directory(), name()), mode)
            .prop_map(|(from, to, mode)| Rename { from, to, mode }),
        2 => (directory(), name()).prop_map(|(directory, name)| Lookup { directory, name }),
        1 => any::<u16>().prop_map(|node| ReadLink { node }),
        3 => (directory(), 0..10u8).prop_map(|(directory, entries)| Walk { directory, entries }),
        3 => (any::<u16>(), proptest::option::of(any::<bool>()))
            .prop_map(|(node, generation)| Open { node, generation }),
        2 => any::<u16>().prop_map(|handle| Close { handle }),
    ]
}

fn data_operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    prop_oneof![
        8 => (any::<u16>(), place(), length(), any::<u8>())
            .prop_map(|(handle, place, length, seed)| Write { handle, place, length, seed }),
        3 => (any::<u16>(), length(), any::<u8>())
            .prop_map(|(handle, length, seed)| Append { handle, length, seed }),
        4 => (any::<u16>(), place(), length())
            .prop_map(|(handle, place, length)| Read { handle, place, length }),
        3 => (any::<u16>(), place()).prop_map(|(node, place)| Truncate { node, place }),
        4 => (any::<u16>(), place(), length(), allocate_mode())
            .prop_map(|(handle, place, length, mode)| Allocate { handle, place, length, mode }),
        2 => (any::<u16>(), place()).prop_map(|(handle, place)| Seek { handle, place }),
    ]
}

fn attribute_operation() -> impl Strategy<Value = Operation> {
    use Operation::*;
    use proptest::option::of;
    let xattr_mode = prop_oneof![
        3 => Just(XattrMode::Any),
        1 => Just(XattrMode::Create),
        1 => Just(XattrMode::Replace)
    ];
    prop_oneof![
        3 => (any::<u16>(), of(0..0o10000u16), of(0..3u8), of(0..3u8), of(time()), of(time()), any::<u32>())
            .prop_map(|(node, permissions, owner, group, atime, mtime, clears)| {
                Attributes { node, permissions, owner, group, atime, mtime, clears }
            }),
        4 => (any::<u16>(), 0..10u8, prop_oneof![0..100u16, 3700..3800u16], xattr_mode)
            .prop_map(|(node, name, length, mode)| SetXattr { node, name, length, mode }),
        1 => (any::<u16>(), 0..10u8).prop_map(|(node, name)| GetXattr { node, name }),
        2 => (any::<u16>(), 0..10u8).prop_map(|(node, name)| RemoveXattr { node, name }),
    ]
}

pub fn operation(weights: Weights) -> impl Strategy<Value = Operation> {
    prop_oneof![
        weights.names * 4 => name_operation(),
        weights.data * 4 => data_operation(),
        weights.attributes * 4 => attribute_operation(),
        2 => Just(Operation::Space),
        1 => any::<bool>().prop_map(|check| Operation::Reattach { check }),
    ]
}

/// Bytes that tell where they were written and by whom.
pub fn pattern(seed: u8, length: usize) -> Vec<u8> {
    (0..length)
        .map(|at| (at as u32).wrapping_mul(2_654_435_761).to_le_bytes()[3] ^ seed | 1)
        .collect()
}

const BOUNDARIES: [u64; 14] = [
    0,
    4096,
    2 * 4096,
    7 * 4096,
    8 * 4096,
    9 * 4096,
    511 * 4096,
    512 * 4096,
    513 * 4096,
    512 * 512 * 4096,
    1 << 31,
    1 << 32,
    1 << 40,
    i64::MAX as u64,
];

impl Place {
    /// The offset in a file of this size.
    pub fn resolve(&self, size: u64) -> u64 {
        match *self {
            Place::Near(base, by) => {
                let base = BOUNDARIES[base as usize % BOUNDARIES.len()];
                base.saturating_add_signed(by as i64 * 1001 % 4100 + by as i64)
            }
            Place::End(by) => size.saturating_add_signed(by as i64),
            Place::Low(at) => at as u64,
        }
    }
}
