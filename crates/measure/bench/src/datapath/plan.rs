//! What is measured, and at which offsets: the same for all subjects.

use egeria_stats::rng::Rng;
use serde::{Deserialize, Serialize};

/// What a case does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// `pread` at random offsets.
    RandomPread,
    /// `pread` at ascending offsets.
    SequentialPread,
    /// `pwrite` at random offsets.
    RandomPwrite,
    /// `pwrite` at ascending offsets.
    SequentialPwrite,
    /// `pwritev` of two halves at random offsets.
    RandomPwritev,
    /// `write` to a file opened with `O_APPEND`, empty at first.
    Append,
}

impl Operation {
    /// The name used in rows and tables.
    pub fn name(self) -> &'static str {
        match self {
            Operation::RandomPread => "random_pread",
            Operation::SequentialPread => "sequential_pread",
            Operation::RandomPwrite => "random_pwrite",
            Operation::SequentialPwrite => "sequential_pwrite",
            Operation::RandomPwritev => "random_pwritev",
            Operation::Append => "append",
        }
    }

    fn is_random(self) -> bool {
        matches!(
            self,
            Operation::RandomPread | Operation::RandomPwrite | Operation::RandomPwritev
        )
    }
}

/// Whose the files of a case are, and where their data lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Files {
    /// Each thread has its own; on Egeria their data is on one node.
    Own,
    /// All threads have one, each a part of it for itself; on Egeria its data is on one node.
    One,
    /// Each thread has its own; on Egeria they are striped.
    Striped,
    /// All threads have one, each a part of it for itself; on Egeria it is striped.
    Shared,
}

/// One row of the result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Case {
    pub operation: Operation,
    /// Bytes of each call.
    pub block_bytes: u64,
    /// Threads at once.
    pub threads: usize,
    pub files: Files,
}

impl Case {
    /// The name used in rows and tables.
    pub fn name(&self) -> String {
        let files = match self.files {
            Files::Own => "",
            Files::One => "one_file_",
            Files::Striped => "striped_",
            Files::Shared => "shared_",
        };
        format!("{files}{}", self.operation.name())
    }
}

/// Most threads of a case in which each has a file of its own.
pub const MAX_THREADS: usize = 2;
/// Threads that share the CPUs of small machines, so that one may lose its CPU while it holds a lock.
pub const CROWD: usize = 8;
/// Largest block of a case, bytes; every file is a multiple of it.
pub const LARGEST_BLOCK_BYTES: u64 = 2 << 20;
const MEDIUM_BLOCK_BYTES: u64 = 64 << 10;
const SMALL_BLOCK_BYTES: u64 = 4 << 10;
/// Parts of a block.
const PART_BYTES: [u64; 4] = [64, 256, 1 << 10, 2 << 10];

/// All cases, in the order of the table.
pub fn cases() -> Vec<Case> {
    let both = [
        Operation::RandomPread,
        Operation::RandomPwrite,
        Operation::SequentialPread,
        Operation::SequentialPwrite,
    ];
    let random = [Operation::RandomPread, Operation::RandomPwrite];
    let mut cases = Vec::new();
    let mut push_with = |threads: &[usize], files, operation, block_bytes| {
        cases.extend(threads.iter().map(|threads| Case {
            operation,
            block_bytes,
            threads: *threads,
            files,
        }));
    };
    for block_bytes in PART_BYTES {
        push_with(&[1], Files::Own, Operation::RandomPwrite, block_bytes);
        push_with(&[1], Files::Own, Operation::Append, block_bytes);
    }
    push_with(
        &[1],
        Files::Own,
        Operation::RandomPwritev,
        SMALL_BLOCK_BYTES,
    );
    for operation in random {
        push_with(
            &[MAX_THREADS, CROWD],
            Files::One,
            operation,
            SMALL_BLOCK_BYTES,
        );
    }
    let mut push = |files, operation, block_bytes| {
        push_with(&[1, MAX_THREADS], files, operation, block_bytes);
    };
    for block_bytes in [SMALL_BLOCK_BYTES, MEDIUM_BLOCK_BYTES] {
        for operation in both {
            push(Files::Own, operation, block_bytes);
        }
    }
    push(Files::Own, Operation::Append, SMALL_BLOCK_BYTES);
    for block_bytes in [SMALL_BLOCK_BYTES, MEDIUM_BLOCK_BYTES, LARGEST_BLOCK_BYTES] {
        for operation in random {
            push(Files::Striped, operation, block_bytes);
        }
    }
    for block_bytes in [SMALL_BLOCK_BYTES, MEDIUM_BLOCK_BYTES] {
        push(Files::Shared, Operation::RandomPwrite, block_bytes);
    }
    cases
}

/// The order in which cases are measured, as places in `cases`: from those that leave a volume in
/// large pieces to those that leave it in small ones. Egeria never overwrites in place, so large
/// reads after random small writes would measure what those left, not what large calls cost.
pub fn measuring_order(cases: &[Case]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..cases.len()).collect();
    order.sort_by_key(|place| {
        let case = &cases[*place];
        let operation = case.operation;
        let appends = operation == Operation::Append;
        (!appends, u64::MAX - case.block_bytes, operation.is_random())
    });
    order
}

/// Offsets of one thread's calls, for ever; a function of its arguments alone, so that every subject
/// is asked for the same bytes in the same order.
#[derive(Clone, Debug)]
pub struct Offsets {
    rng: Rng,
    first_block: u64,
    next_block: u64,
    blocks: u64,
    block_bytes: u64,
    random: bool,
}

impl Offsets {
    /// Offsets in a file of `file_bytes` (at least one block) for thread `thread` with this seed.
    pub fn new(case: &Case, file_bytes: u64, thread: usize, seed: u64) -> Offsets {
        let mixed = (seed ^ ((thread as u64 + 1) << 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let (part, parts) = match case.files {
            Files::Shared | Files::One => (thread as u64, case.threads as u64),
            Files::Own | Files::Striped => (0, 1),
        };
        let blocks = (file_bytes / case.block_bytes / parts).max(1);
        Offsets {
            rng: Rng::new(mixed),
            first_block: part * blocks,
            next_block: match case.operation {
                Operation::Append => 0,
                _ => mixed % blocks,
            },
            blocks,
            block_bytes: case.block_bytes,
            random: case.operation.is_random(),
        }
    }

    /// The next offset, bytes.
    #[inline]
    #[allow(clippy::should_implement_trait)]
    pub fn next(&mut self) -> u64 {
        if self.random {
            // The high half times the range, shifted: even and without a division.
            let block = ((self.rng.next_u64() >> 32) * self.blocks) >> 32;
            return (self.first_block + block) * self.block_bytes;
        }
        let offset = (self.first_block + self.next_block) * self.block_bytes;
        self.next_block += 1;
        if self.next_block == self.blocks {
            self.next_block = 0;
        }
        offset
    }
}
