//! The ways to see what programs access in memory.

use std::fmt;
use std::str::FromStr;

/// A way to see accesses.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// Samples of the processor's PMU: PEBS, IBS.
    Pmu,
    /// Bits in page tables, and faults of writes to pages that were protected for a moment.
    WriteFaults,
    /// Bits that the processor sets in page tables.
    PageTables,
    /// The kernel's DAMON, and write faults where the kernel has them.
    Damon,
    PageFaults,
}

impl Way {
    /// All, in the order in which they are tried. DAMON needs page tables, so it is used only where it is asked for.
    pub const ALL: [Way; 5] = [
        Way::Pmu,
        Way::WriteFaults,
        Way::PageTables,
        Way::Damon,
        Way::PageFaults,
    ];

    /// Its name in arguments and reports.
    pub fn name(self) -> &'static str {
        match self {
            Way::Pmu => "pmu",
            Way::Damon => "damon",
            Way::WriteFaults => "write-faults",
            Way::PageTables => "page-tables",
            Way::PageFaults => "page-faults",
        }
    }

    /// What it can see, and what not, in one line.
    pub fn sees(self) -> &'static str {
        match self {
            Way::Pmu => {
                "by samples of the PMU: what memory answers, from which node and how often; not what caches answer, and on Intel no stores"
            }
            Way::Damon => {
                "by DAMON: which parts of memory are used, and in how many moments; not how often in one, nor which threads only read it"
            }
            Way::WriteFaults => {
                "by page tables and write faults: which memory is used in a moment of each window, and which threads write it; not how often, nor which threads only read it"
            }
            Way::PageTables => {
                "by page tables: which memory is used in a moment of each window; not how often, nor by which thread"
            }
            Way::PageFaults => {
                "by page faults: which memory is used for the first time, and from which node; not the use of memory that a program has already"
            }
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// No such way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct UnknownWay(String);

impl fmt::Display for UnknownWay {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = Way::ALL.map(Way::name).join(", ");
        write!(
            formatter,
            "{:?} is no way to see accesses to memory; use auto or one of {names}",
            self.0
        )
    }
}

impl std::error::Error for UnknownWay {}

impl FromStr for Way {
    type Err = UnknownWay;

    fn from_str(text: &str) -> Result<Way, UnknownWay> {
        let mut all = Way::ALL.into_iter();
        all.find(|way| way.name() == text)
            .ok_or_else(|| UnknownWay(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_back() {
        for way in Way::ALL {
            assert_eq!(way.name().parse(), Ok(way));
        }
        let error = "numa".parse::<Way>().unwrap_err().to_string();
        assert!(error.contains("page-tables"), "{error}");
    }
}
