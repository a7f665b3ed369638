//! Programs that benches run: how they are called, and what they say of their speed.

pub(crate) mod filebench;
pub(crate) mod fio;
pub(crate) mod git;
pub(crate) mod host;
pub(crate) mod rocksdb;
pub(crate) mod script;
pub(crate) mod tree;
pub(crate) mod worker;

/// What a program did, by its own account.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Yield {
    /// Operations/s as the program counts them.
    pub operations_s: f64,
    pub read_bytes_s: f64,
    /// Bytes/s it wrote.
    pub written_bytes_s: f64,
}

impl Yield {
    pub fn plus(self, other: Yield) -> Yield {
        Yield {
            operations_s: self.operations_s + other.operations_s,
            read_bytes_s: self.read_bytes_s + other.read_bytes_s,
            written_bytes_s: self.written_bytes_s + other.written_bytes_s,
        }
    }

    /// `factor` times as much.
    pub fn times(self, factor: f64) -> Yield {
        Yield {
            operations_s: self.operations_s * factor,
            read_bytes_s: self.read_bytes_s * factor,
            written_bytes_s: self.written_bytes_s * factor,
        }
    }

    /// Reads weighted and writes, bytes/s (NThread Eq. 1).
    pub fn weighted_bytes_s(self, read_weight: f64) -> f64 {
        self.read_bytes_s * read_weight + self.written_bytes_s
    }
}
