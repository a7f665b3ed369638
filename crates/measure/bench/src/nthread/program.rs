//! What runs, and in what its throughput is told.

use egeria_policy::nthread::Settings;

use crate::programs::Yield;

/// A measured program with its workload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Program {
    /// fio, random reads and writes of private files.
    Fio {
        /// Share of reads, %.
        read_percent: u32,
        block_bytes: u32,
    },
    /// RocksDB's `db_bench`.
    Rocksdb(Benchmark),
    /// A filebench personality, by `egeria-filebench`.
    Filebench(&'static str),
}

/// NThread's three workloads of `db_bench` (§II-C).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Benchmark {
    Fill,
    Read,
    /// RW: readwhilewriting.
    ReadWhileWriting,
}

impl Benchmark {
    /// As `db_bench` calls it.
    pub fn word(self) -> &'static str {
        match self {
            Benchmark::Fill => "fillseq",
            Benchmark::Read => "readrandom",
            Benchmark::ReadWhileWriting => "readwhilewriting",
        }
    }

    fn letters(self) -> &'static str {
        match self {
            Benchmark::Fill => "W",
            Benchmark::Read => "R",
            Benchmark::ReadWhileWriting => "RW",
        }
    }
}

/// Unit of a throughput.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// Bytes/s, reads weighted as in NThread Eq. 1.
    WeightedBytes,
    Operations,
}

impl Program {
    /// Name of the workload in rows.
    pub fn workload(self) -> String {
        match self {
            Program::Fio {
                read_percent,
                block_bytes,
            } => match block_bytes {
                4096 => format!("rw{read_percent}"),
                bytes => format!("rw{read_percent} {} KB", bytes >> 10),
            },
            Program::Rocksdb(benchmark) => benchmark.letters().to_owned(),
            Program::Filebench(personality) => personality.to_owned(),
        }
    }

    /// What its throughput counts.
    pub fn unit(self) -> Unit {
        match self {
            Program::Fio { .. } => Unit::WeightedBytes,
            _ => Unit::Operations,
        }
    }

    pub fn throughput(self, given: Yield) -> f64 {
        match self.unit() {
            Unit::WeightedBytes => {
                let weight = Settings::default().read_weight;
                given.weighted_bytes_s(weight)
            }
            Unit::Operations => given.operations_s,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fio_is_told_in_eq_1_bytes_and_others_in_operations() {
        let given = Yield {
            operations_s: 5.0,
            read_bytes_s: 300.0,
            written_bytes_s: 20.0,
        };
        let fio = Program::Fio {
            read_percent: 80,
            block_bytes: 4096,
        };
        assert!((fio.throughput(given) - 120.0).abs() < 1e-9);
        assert_eq!(Program::Filebench("varmail").throughput(given), 5.0);
        assert_eq!(given.plus(given).times(0.5), given);
    }

    #[test]
    fn workloads_are_named_as_the_figures_name_them() {
        let fio = |read_percent, block_bytes| {
            Program::Fio {
                read_percent,
                block_bytes,
            }
            .workload()
        };
        assert_eq!(fio(80, 4096), "rw80");
        assert_eq!(fio(80, 1024), "rw80 1 KB");
        assert_eq!(
            Program::Rocksdb(Benchmark::ReadWhileWriting).workload(),
            "RW"
        );
    }
}
