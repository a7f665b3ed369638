//! fio: how it is called.

use std::path::Path;

use super::script::Call;

/// Jobs of fio as threads of one process, each with a file of its own that it makes system calls on.
pub(crate) struct Jobs<'a> {
    /// Where the files are.
    pub(crate) directory: &'a Path,
    /// How many.
    pub(crate) count: usize,
    /// Bytes of each file.
    pub(crate) file_bytes: u64,
}

impl Jobs<'_> {
    /// Writes the files.
    pub(crate) fn fill(&self) -> Call {
        calls_in(self.directory, self.words(["--rw=write", "--bs=1M"]))
    }

    /// Works as these options say until it is ended.
    pub(crate) fn endless(&self, options: impl IntoIterator<Item = impl Into<String>>) -> Call {
        endless_in(self.directory, self.words(options))
    }

    fn words(&self, options: impl IntoIterator<Item = impl Into<String>>) -> Vec<String> {
        let mut words = vec![
            format!("--numjobs={}", self.count),
            format!("--size={}", self.file_bytes),
        ];
        words.extend(options.into_iter().map(Into::into));
        words
    }
}

/// Threads that make system calls on files in a directory.
pub(crate) fn calls_in(directory: &Path, options: impl IntoIterator<Item = String>) -> Call {
    let mut call = Call::new([
        "fio",
        "--name=f",
        "--ioengine=psync",
        "--thread",
        "--fallocate=none",
    ]);
    call.words
        .push(format!("--directory={}", directory.display()));
    call.words.extend(options);
    call
}

/// The same, until they are ended.
pub(crate) fn endless_in(directory: &Path, options: impl IntoIterator<Item = String>) -> Call {
    let mut call = calls_in(directory, options);
    let endless = ["--time_based", "--runtime=600"];
    call.words.extend(endless.map(str::to_owned));
    call
}
