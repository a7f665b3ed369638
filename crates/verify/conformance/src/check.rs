//! What cases say: which errno, which content, which times change.

use crate::call::{self, Answer, Errno, Fd};
use libc::{O_CREAT, O_RDWR, O_TRUNC};
use std::ffi::{CStr, CString};
use std::fmt::Debug;
use std::time::Duration;

/// Longer than the tick by which file systems tell times apart (at most 10 ms).
const TICK: Duration = Duration::from_millis(15);

/// The call failed with exactly this.
#[track_caller]
pub fn fails<T: Debug>(expected: i32, answer: Answer<T>) {
    match answer {
        Err(found) => assert_eq!(found, Errno(expected)),
        Ok(value) => panic!("succeeded with {value:?}, {:?} expected", Errno(expected)),
    }
}

/// A name made while running.
pub fn name(text: impl Into<Vec<u8>>) -> CString {
    CString::new(text).expect("no NUL in a name")
}

/// A new or emptied file, open for reading and writing.
#[track_caller]
pub fn make(path: &CStr) -> Fd {
    call::open(path, O_RDWR | O_CREAT | O_TRUNC, 0o644).unwrap()
}

/// A file with this content, closed.
#[track_caller]
pub fn file(path: &CStr, content: &[u8]) {
    put(make(path).0, content);
}

/// Write all at the position.
#[track_caller]
pub fn put(fd: i32, data: &[u8]) {
    assert_eq!(call::write(fd, data), Ok(data.len()));
}

/// Everything a file holds, read from its start through a descriptor.
#[track_caller]
pub fn content(fd: i32) -> Vec<u8> {
    let mut all = vec![0; call::fstat(fd).unwrap().st_size as usize];
    let bytes = call::pread(fd, &mut all, 0).unwrap();
    all.truncate(bytes);
    all
}

/// The same through a descriptor of its own.
#[track_caller]
pub fn content_of(path: &CStr) -> Vec<u8> {
    content(call::open(path, libc::O_RDONLY, 0).unwrap().0)
}

/// The file holds exactly this.
#[track_caller]
pub fn holds(path: &CStr, expected: &[u8]) {
    assert_same(&content_of(path), expected);
}

/// Equal bytes; says where they first differ, not all of them.
#[track_caller]
pub fn assert_same(found: &[u8], expected: &[u8]) {
    if found.len().max(expected.len()) < 64 {
        let [found, expected] = [found, expected].map(String::from_utf8_lossy);
        assert_eq!(found, expected);
    }
    assert_eq!(found.len(), expected.len(), "length");
    let differs = found
        .iter()
        .zip(expected)
        .position(|(one, other)| one != other);
    assert_eq!(differs, None, "first byte that differs");
}

/// Bytes that differ from place to place.
pub fn pattern(seed: u8, bytes: usize) -> Vec<u8> {
    let byte = |at: usize| (at as u8).wrapping_mul(31) ^ (at >> 8) as u8 ^ seed;
    (0..bytes).map(byte).collect()
}

/// Permission bits.
#[track_caller]
pub fn mode(path: &CStr) -> u32 {
    call::lstat(path).unwrap().st_mode & 0o7777
}

/// Nanoseconds since the epoch: of access, content, attributes.
pub fn times(facts: &libc::stat) -> [i64; 3] {
    let time = |seconds: i64, ns: i64| seconds * 1_000_000_000 + ns;
    [
        time(facts.st_atime, facts.st_atime_nsec),
        time(facts.st_mtime, facts.st_mtime_nsec),
        time(facts.st_ctime, facts.st_ctime_nsec),
    ]
}

/// Let the file systems' clock move on.
pub fn tick() {
    std::thread::sleep(TICK);
}

/// The operation moves exactly these times of each path forwards, and none back: `m` of content, `c` of
/// attributes. Access times are not looked at.
#[track_caller]
pub fn changes<T>(expected: &[(&CStr, &str)], operation: impl FnOnce() -> T) -> T {
    let look = |path: &CStr| times(&call::lstat(path).unwrap());
    let before: Vec<_> = expected.iter().map(|(path, _)| look(path)).collect();
    tick();
    let value = operation();
    for ((path, letters), before) in expected.iter().zip(before) {
        let after = look(path);
        assert!(
            after[1] >= before[1] && after[2] >= before[2],
            "times of {path:?} went back"
        );
        let changed = |at: usize, letter| (after[at] > before[at]).then_some(letter);
        let found: String = [changed(1, 'm'), changed(2, 'c')]
            .into_iter()
            .flatten()
            .collect();
        assert_eq!(&found, letters, "times of {path:?}");
    }
    value
}

/// The names in the working directory, each as often as it is listed.
#[track_caller]
pub fn names_here() -> Vec<CString> {
    let entries = std::fs::read_dir(".").expect("the working directory");
    let name_of = |entry: std::fs::DirEntry| name(entry.file_name().into_encoded_bytes());
    entries
        .map(|entry| name_of(entry.expect("an entry")))
        .collect()
}
