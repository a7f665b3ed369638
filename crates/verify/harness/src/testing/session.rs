//! The shared memory of a session, as a process that forges it finds it.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

/// The file of the session of this name that this process has mapped: its path, and the file open for writing.
///
/// # Panics
/// When there is none.
pub fn mapped_session(name: &str) -> (PathBuf, File) {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("the own mappings");
    // The memory of an emulated machine is mapped too, under the session's name with an ending.
    let is_session =
        |line: &&str| line.contains(" rw-s ") && line.contains(name) && !line.ends_with(".machine");
    let line = maps.lines().find(is_session).expect("a session");
    let path = line.split_ascii_whitespace().nth(5).expect("a path");
    let file = File::options().read(true).write(true).open(path);
    (path.into(), file.expect("a file of our own"))
}

/// Words of a sparse file that are not zero, with where they are and what follows.
///
/// # Panics
/// When the file cannot be read.
pub fn words(file: &File) -> Vec<(u64, u64, u64)> {
    const CHUNK: u64 = 1 << 16;
    let length = file.metadata().expect("metadata").len();
    let mut found = Vec::new();
    let mut bytes = vec![0; CHUNK as usize];
    for begin in (0..length).step_by(CHUNK as usize) {
        let count = CHUNK.min(length - begin) as usize;
        file.read_exact_at(&mut bytes[..count], begin)
            .expect("all of it");
        let pairs = bytes[..count].as_chunks::<8>().0.windows(2).enumerate();
        let words = pairs.map(|(index, pair)| {
            let [word, next] = [pair[0], pair[1]].map(u64::from_ne_bytes);
            (begin + 8 * index as u64, word, next)
        });
        found.extend(words.filter(|(_, word, _)| *word != 0));
    }
    found
}
