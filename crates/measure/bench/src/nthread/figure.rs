//! The figures of the paper that are reproduced.

/// Name of the mean over the workloads of a figure.
pub(super) const MEAN: &str = "mean";

/// A figure of the paper.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug)]
pub enum Figure {
    /// Two instances of RocksDB, threads where the scheduler or pinning puts them.
    Two,
    /// Whether CPU contention is worth handling.
    Four,
    /// fio, 4 threads.
    FiveA,
    /// fio, 8 threads.
    FiveB,
    /// filebench, one instance.
    SixA,
    /// filebench, two instances.
    SixB,
    /// RocksDB, one instance.
    SevenA,
    /// RocksDB, two instances.
    SevenB,
    /// The limit of Eq. 5.
    Eight,
    /// The weight of Eq. 1.
    Nine,
}

impl Figure {
    /// All, as the paper orders them.
    pub const ALL: [Figure; 10] = [
        Figure::Two,
        Figure::Four,
        Figure::FiveA,
        Figure::FiveB,
        Figure::SixA,
        Figure::SixB,
        Figure::SevenA,
        Figure::SevenB,
        Figure::Eight,
        Figure::Nine,
    ];

    /// Its number in the paper.
    pub fn name(self) -> &'static str {
        match self {
            Figure::Two => "2",
            Figure::Four => "4",
            Figure::FiveA => "5a",
            Figure::FiveB => "5b",
            Figure::SixA => "6a",
            Figure::SixB => "6b",
            Figure::SevenA => "7a",
            Figure::SevenB => "7b",
            Figure::Eight => "8",
            Figure::Nine => "9",
        }
    }

    /// The figures meant by a number: `5` is both parts.
    pub fn named(text: &str) -> Vec<Figure> {
        let is_meant = |figure: &Figure| {
            let name = figure.name();
            name == text || name.trim_end_matches(['a', 'b']) == text
        };
        Figure::ALL.into_iter().filter(is_meant).collect()
    }

    /// What it shows, in a line.
    pub fn title(self) -> &'static str {
        match self {
            Figure::Two => "two RocksDB instances, threads free, with their data and away from it",
            Figure::Four => "fio with all threads on node 0, and with half of them away from data",
            Figure::FiveA => "fio, 4 KiB, 4 threads, data on node 0",
            Figure::FiveB => "fio, 4 KiB, 8 threads, data on node 0",
            Figure::SixA => "filebench, one instance",
            Figure::SixB => "filebench, two instances",
            Figure::SevenA => "RocksDB db_bench, one instance",
            Figure::SevenB => "RocksDB db_bench, two instances",
            Figure::Eight => "fio, 1 KiB, 16 threads: limits of CPU use",
            Figure::Nine => "fio, 4 KiB, 4 threads with their data: weights of a byte read",
        }
    }

    /// The bar that the others of the figure are compared with.
    pub fn baseline(self) -> &'static str {
        match self {
            Figure::Four => "crowded",
            Figure::Eight => "limit_100",
            _ => "nova",
        }
    }

    /// Whether the paper gives, and we add, the mean over the workloads.
    pub fn has_mean(self) -> bool {
        use Figure::*;
        matches!(self, FiveA | FiveB | SixA | SixB | SevenA | SevenB)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_means_all_parts_of_a_figure() {
        assert_eq!(Figure::named("5"), [Figure::FiveA, Figure::FiveB]);
        assert_eq!(Figure::named("5b"), [Figure::FiveB]);
        assert_eq!(Figure::named("8"), [Figure::Eight]);
        for text in ["", "3", "5c", "a"] {
            assert!(Figure::named(text).is_empty(), "{text:?}");
        }
    }
}
