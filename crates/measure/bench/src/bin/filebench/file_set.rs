//! The files all threads share: which exist, and how large each is.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU8, Ordering};

use crate::gamma::gamma;
use crate::options::Options;
use egeria_stats::rng::Rng;

/// Stream of random numbers for sizes, apart from those of threads.
const SIZES: u64 = 1 << 40;
/// Stream that says which files exist at first.
const PRESENCE: u64 = 1 << 41;
/// Files are at most so many times their mean size: a long tail would make short runs differ.
const LARGEST: f64 = 8.0;
/// Fill of the files.
const FILL: u8 = 0xE6;

/// Where a file is between existing and not.
const ABSENT: u8 = 0;
const PRESENT: u8 = 1;
const TAKEN: u8 = 2;

/// The set, as all threads see it.
pub struct FileSet {
    states: Vec<AtomicU8>,
    directory: PathBuf,
    width: usize,
    mean_bytes: u64,
    seed: u64,
}

impl FileSet {
    /// The set as it lies there.
    pub fn find(options: &Options) -> Result<FileSet, String> {
        let set = FileSet::new(options);
        for file in 0..set.states.len() {
            if fs::symlink_metadata(set.path(file)).is_ok() {
                set.states[file].store(PRESENT, Ordering::Relaxed);
            }
        }
        match set.any(&mut Rng::of(&[0, 0]), PRESENT) {
            Some(_) => Ok(set),
            None => Err(format!(
                "no files in {}; run with --prepare-only first",
                options.directory.display()
            )),
        }
    }

    fn new(options: &Options) -> FileSet {
        FileSet {
            states: (0..options.files).map(|_| AtomicU8::new(ABSENT)).collect(),
            directory: options.directory.clone(),
            width: options.personality.directory_width,
            mean_bytes: options.file_bytes,
            seed: options.seed,
        }
    }

    pub fn path(&self, file: usize) -> PathBuf {
        let directory = if self.states.len() > self.width {
            self.directory.join(format!("d{}", file / self.width))
        } else {
            self.directory.clone()
        };
        directory.join(format!("f{file}"))
    }

    /// What a file holds when written whole, bytes.
    pub fn size_bytes(&self, file: usize) -> u64 {
        let mean = self.mean_bytes as f64;
        let drawn = gamma(&mut Rng::of(&[self.seed, SIZES + file as u64]), mean);
        (drawn.min(mean * LARGEST) as u64).max(1)
    }

    /// A file that exists, to open or stat; it may be gone by then.
    pub fn present(&self, rng: &mut Rng) -> Option<usize> {
        self.any(rng, PRESENT)
    }

    /// A file that exists, to delete: nobody else gets it.
    pub fn take_present(&self, rng: &mut Rng) -> Option<usize> {
        self.take(rng, PRESENT)
    }

    /// A file that does not exist, to create: nobody else gets it.
    pub fn take_absent(&self, rng: &mut Rng) -> Option<usize> {
        self.take(rng, ABSENT)
    }

    /// The file taken exists from now on, or not.
    pub fn put(&self, file: usize, exists: bool) {
        let state = if exists { PRESENT } else { ABSENT };
        self.states[file].store(state, Ordering::Release);
    }

    fn take(&self, rng: &mut Rng, wanted: u8) -> Option<usize> {
        loop {
            let file = self.any(rng, wanted)?;
            let state = &self.states[file];
            let taken = state.compare_exchange(wanted, TAKEN, Ordering::Acquire, Ordering::Relaxed);
            if taken.is_ok() {
                return Some(file);
            }
        }
    }

    /// One in that state: the first from a random place.
    fn any(&self, rng: &mut Rng, wanted: u8) -> Option<usize> {
        let count = self.states.len();
        let start = rng.below(count as u64) as usize;
        let places = (0..count).map(|step| (start + step) % count);
        let mut right = places.filter(|&file| self.states[file].load(Ordering::Relaxed) == wanted);
        right.next()
    }

    /// The log all threads append to.
    pub fn log(&self) -> PathBuf {
        self.directory.join("log")
    }
}

/// Makes the set anew: what an earlier run left of it is replaced or removed.
pub fn prepare(options: &Options) -> Result<(), String> {
    let set = FileSet::new(options);
    let mut presence = Rng::of(&[options.seed, PRESENCE]);
    let data = vec![FILL; options.file_bytes as usize * LARGEST as usize];
    make_directory(&options.directory)?;
    for file in 0..options.files {
        let path = set.path(file);
        if file % set.width == 0 && options.files > set.width {
            make_directory(path.parent().unwrap_or(&options.directory))?;
        }
        if presence.below(100) < options.personality.present_percent {
            write(&path, &data[..set.size_bytes(file) as usize])?;
        } else {
            let _ = fs::remove_file(&path);
        }
    }
    write(&set.log(), b"")
}

fn make_directory(path: &Path) -> Result<(), String> {
    fs::create_dir_all(path).map_err(|error| failed("make", path, &error))
}

fn write(path: &Path, data: &[u8]) -> Result<(), String> {
    let written = fs::File::create(path).and_then(|mut file| file.write_all(data));
    written.map_err(|error| failed("write", path, &error))
}

/// One line for a call that failed.
pub fn failed(what: &str, path: &Path, error: &std::io::Error) -> String {
    format!(
        "cannot {what} {}: {error}; check the directory and its room",
        path.display()
    )
}
