//! What each personality does, over and over, in every thread.
//!
//! The steps are those of the personality files that come with filebench; sizes and numbers of
//! threads are NThread's Table III.

/// One step; each counts as one operation, as in filebench's own summary.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Delete a file that exists.
    Delete,
    /// Create a file that does not exist, and keep it open.
    Create,
    /// Open a file that exists.
    Open,
    /// Write the open file's whole size.
    WriteWhole,
    /// Append a random amount to the open file.
    Append,
    /// Read all of the open file.
    ReadWhole,
    /// fsync the open file.
    Sync,
    /// Close the open file.
    Close,
    /// stat a file that exists.
    Stat,
    /// Append a random amount to the log that all threads share.
    AppendLog,
}

/// A workload with its stock sizes.
pub struct Personality {
    /// Its name in filebench.
    pub name: &'static str,
    /// The loop of a thread.
    pub steps: &'static [Step],
    /// Threads (Table III).
    pub threads: usize,
    /// Mean size of a file, bytes (Table III).
    pub file_bytes: u64,
    /// Files when nothing is said: filebench's default; Table III has 100,000.
    pub files: usize,
    /// Most bytes of a read or write of a whole file.
    pub io_bytes: u64,
    /// Share of the files that exist at first, %.
    pub present_percent: u64,
    /// Files in a directory.
    pub directory_width: usize,
}

use Step::*;

const FILESERVER: &[Step] = &[
    Create, WriteWhole, Close, Open, Append, Close, Open, ReadWhole, Close, Delete, Stat,
];
const WEBSERVER: &[Step] = &[
    Open, ReadWhole, Close, Open, ReadWhole, Close, Open, ReadWhole, Close, Open, ReadWhole, Close,
    Open, ReadWhole, Close, Open, ReadWhole, Close, Open, ReadWhole, Close, Open, ReadWhole, Close,
    Open, ReadWhole, Close, Open, ReadWhole, Close, AppendLog,
];
const WEBPROXY: &[Step] = &[
    Delete, Create, Append, Close, Open, ReadWhole, Close, Open, ReadWhole, Close, Open, ReadWhole,
    Close, Open, ReadWhole, Close, Open, ReadWhole, Close,
];
const VARMAIL: &[Step] = &[
    Delete, Create, Append, Sync, Close, Open, ReadWhole, Append, Sync, Close, Open, ReadWhole,
    Close,
];

const ALL_IN_ONE: usize = 1_000_000;

/// The four of Table III.
pub const ALL: [Personality; 4] = [
    Personality {
        name: "fileserver",
        steps: FILESERVER,
        threads: 50,
        file_bytes: 128 << 10,
        files: 10_000,
        io_bytes: 1 << 20,
        present_percent: 80,
        directory_width: 20,
    },
    Personality {
        name: "webserver",
        steps: WEBSERVER,
        threads: 100,
        file_bytes: 16 << 10,
        files: 1_000,
        io_bytes: 1 << 20,
        present_percent: 100,
        directory_width: 20,
    },
    Personality {
        name: "webproxy",
        steps: WEBPROXY,
        threads: 100,
        file_bytes: 16 << 10,
        files: 10_000,
        // Table III; the personality file has 1 MiB.
        io_bytes: 16 << 10,
        present_percent: 80,
        directory_width: ALL_IN_ONE,
    },
    Personality {
        name: "varmail",
        steps: VARMAIL,
        threads: 16,
        file_bytes: 16 << 10,
        files: 1_000,
        io_bytes: 1 << 20,
        present_percent: 80,
        directory_width: ALL_IN_ONE,
    },
];

pub fn by_name(name: &str) -> Option<&'static Personality> {
    ALL.iter().find(|each| each.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_opened_is_closed_before_the_next() {
        for personality in &ALL {
            let mut open = false;
            for step in personality.steps {
                match step {
                    Create | Open => assert!(!std::mem::replace(&mut open, true)),
                    Close => assert!(std::mem::replace(&mut open, false)),
                    WriteWhole | Append | ReadWhole | Sync => assert!(open),
                    Delete | Stat | AppendLog => {}
                }
            }
            assert!(!open, "{}", personality.name);
        }
    }

    #[test]
    fn whole_reads_and_writes_are_in_the_ratio_of_table_iii() {
        let ratio = |name: &str| {
            let steps = by_name(name).unwrap().steps;
            let count = |wanted: &[Step]| steps.iter().filter(|step| wanted.contains(step)).count();
            (count(&[ReadWhole]), count(&[WriteWhole, Append, AppendLog]))
        };
        assert_eq!(ratio("fileserver"), (1, 2));
        assert_eq!(ratio("webserver"), (10, 1));
        assert_eq!(ratio("webproxy"), (5, 1));
        assert_eq!(ratio("varmail"), (2, 2));
    }
}
