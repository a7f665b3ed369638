//! What a worker does: step `n` of worker `w` follows from the two numbers alone, so that whoever
//! knows how many steps returned knows what must be there.

use egeria_stats::rng::{Rng, mix_all};

/// Files of a worker's own directory.
pub const NAMES: u64 = 5;
/// Fields of the table.
pub const FIELDS: u64 = 8;
/// Tokens that wander between the shared directories.
pub const TOKENS: u64 = 6;
/// Shared directories.
pub const ROOMS: u64 = 3;

/// One step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// On the worker's own files.
    Own(Own),
    /// A record to the common log.
    Append { bytes: usize },
    /// A new name in the common directory.
    Name,
    /// The name before the last goes from the common directory.
    Forget,
    /// A field of the table is written whole.
    Paint { field: u64 },
    /// A field of the table is read.
    Look { field: u64 },
    /// A token goes from wherever it is to this place.
    Carry { token: u64, room: u64 },
    /// The elastic file is cut or stretched.
    Stretch { bytes: u64 },
    /// Part of the elastic file is written.
    Fill { offset: u64, bytes: usize },
    /// Part of the elastic file is read.
    Check { offset: u64, bytes: usize },
    /// A name that everybody makes, replaces and removes.
    Fight { access_path: u64 },
    /// The names of the common directory are read.
    List,
}

/// A step on own files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Own {
    Write {
        name: u64,
        offset: u64,
        bytes: usize,
    },
    Append {
        name: u64,
        bytes: usize,
    },
    Truncate {
        name: u64,
        bytes: u64,
    },
    Punch {
        name: u64,
        offset: u64,
        bytes: u64,
    },
    Link {
        name: u64,
        other: u64,
    },
    Unlink {
        name: u64,
    },
    Rename {
        name: u64,
        other: u64,
    },
    Read {
        name: u64,
    },
    Sync {
        name: u64,
    },
    /// A directory is made, or removed where there is one.
    Directory {
        name: u64,
    },
}

/// Step `number` of a worker.
pub fn step(worker: u64, number: u64) -> Step {
    let mut rng = Rng::of(&[worker, number]);
    match rng.below(41) {
        0..16 => Step::Own(own(&mut rng)),
        16..20 => Step::Append {
            bytes: 1 + rng.below(if number.is_multiple_of(8) { 9000 } else { 300 }) as usize,
        },
        20..22 => Step::Name,
        22..24 => Step::Forget,
        24..28 => Step::Paint {
            field: rng.below(FIELDS),
        },
        28..30 => Step::Look {
            field: rng.below(FIELDS),
        },
        30..32 => Step::Carry {
            token: rng.below(TOKENS),
            room: rng.below(ROOMS),
        },
        32..34 => Step::Stretch {
            bytes: rng.below(20_000),
        },
        34..36 => Step::Fill {
            offset: rng.below(20_000),
            bytes: 1 + rng.below(5000) as usize,
        },
        36..38 => Step::Check {
            offset: rng.below(20_000),
            bytes: 1 + rng.below(9000) as usize,
        },
        38..40 => Step::Fight {
            access_path: rng.below(5),
        },
        _ => Step::List,
    }
}

fn own(rng: &mut Rng) -> Own {
    let name = rng.below(NAMES);
    match rng.below(20) {
        0..5 => Own::Write {
            name,
            offset: rng.below(40_000),
            bytes: 1 + rng.below(9000) as usize,
        },
        5..9 => Own::Append {
            name,
            bytes: 1 + rng.below(3000) as usize,
        },
        9..11 => Own::Truncate {
            name,
            bytes: rng.below(40_000),
        },
        11 => Own::Punch {
            name,
            offset: rng.below(30_000),
            bytes: 1 + rng.below(12_000),
        },
        12 => Own::Link {
            name,
            other: rng.below(NAMES),
        },
        13..15 => Own::Unlink { name },
        15..17 => Own::Read { name },
        17 => Own::Sync { name },
        18 => Own::Directory { name },
        _ => Own::Rename {
            name,
            other: rng.below(NAMES),
        },
    }
}

/// Names a worker has made in the common directory after so many steps, and how many of them are gone.
pub fn names_after(worker: u64, steps: u64) -> (u64, u64) {
    let (mut named, mut forgotten) = (0, 0);
    for number in 0..steps {
        match step(worker, number) {
            Step::Name => named += 1,
            Step::Forget if forgotten + 1 < named => forgotten += 1,
            _ => {}
        }
    }
    (named, forgotten)
}

/// Byte `at` of what a worker writes at a step.
pub fn byte(worker: u64, number: u64, at: usize) -> u8 {
    (mix_all(&[worker, number]) as u8).wrapping_add((at % 253) as u8)
}

/// What a worker writes at a step.
pub fn bytes(worker: u64, number: u64, count: usize) -> Vec<u8> {
    (0..count).map(|at| byte(worker, number, at)).collect()
}
