//! A directory tree to copy, pack and clone, and its fingerprint: what must be the same afterwards.

use std::collections::HashSet;
use std::collections::hash_map::DefaultHasher;
use std::fs::{self, File};
use std::hash::Hasher;
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, SystemTime};

use egeria_stats::rng::Rng;

/// Seconds since the epoch of every file made: whole, for tar keeps no fractions.
const MODIFIED_S: u64 = 1_600_000_000;
/// Directories of a whole tree.
const DIRECTORIES: usize = 24;
const FILES: usize = 24;

/// Makes a tree: files of 0 bytes to 1 MiB, executables, links of both kinds, a sparse file, odd
/// names, deep directories. The same each time. Returns the bytes of its files.
pub(crate) fn make(root: &Path, quick: bool) -> io::Result<u64> {
    let directories = if quick { DIRECTORIES / 8 } else { DIRECTORIES };
    let mut bytes = 0;
    for number in 0..directories {
        let mut directory = root.join(format!("part {number:02}"));
        // Every fourth lies deep.
        if number % 4 == 3 {
            directory.extend((0..6).map(|level| format!("level{level}")));
        }
        fs::create_dir_all(&directory)?;
        for file in 0..FILES {
            bytes += make_file(&directory, number * FILES + file)?;
        }
        std::os::unix::fs::symlink("../part 00/file 0003.txt", directory.join("symbolic"))?;
        fs::hard_link(
            directory.join(file_name(number * FILES + 1)),
            directory.join("second name"),
        )?;
    }
    bytes += make_sparse(&root.join("sparse"))?;
    settle_times(root)?;
    Ok(bytes)
}

fn file_name(number: usize) -> String {
    match number % 7 {
        5 => format!("Ümlaut and blank {number:04}.dat"),
        _ => format!("file {number:04}.txt"),
    }
}

fn make_file(directory: &Path, number: usize) -> io::Result<u64> {
    // Mostly small as source files are, a few large.
    let bytes = match number % 24 {
        0 => 0,
        23 => 1 << 20,
        rest => rest * rest * 317 + number,
    };
    let path = directory.join(file_name(number));
    let mut file = File::create(&path)?;
    file.write_all(&content(number as u64, bytes))?;
    let mode = if number.is_multiple_of(9) {
        0o755
    } else {
        0o644
    };
    fs::set_permissions(&path, fs::Permissions::from_mode(mode))?;
    Ok(bytes as u64)
}

fn make_sparse(path: &Path) -> io::Result<u64> {
    use std::os::unix::fs::FileExt;
    let bytes = 3 << 20;
    let file = File::create(path)?;
    file.set_len(bytes)?;
    file.write_all_at(b"the middle", bytes / 2)?;
    Ok(bytes)
}

/// Lines of words: compressible as text is, different in every file.
fn content(seed: u64, bytes: usize) -> Vec<u8> {
    let mut rng = Rng::new(seed);
    let mut text = Vec::with_capacity(bytes + 32);
    while text.len() < bytes {
        let word = rng.next_u64();
        text.extend_from_slice(format!("word{:03} {word:016x}\n", word % 500).as_bytes());
    }
    text.truncate(bytes);
    text
}

/// Gives everything the same whole-second time, directories last.
fn settle_times(path: &Path) -> io::Result<()> {
    let facts = fs::symlink_metadata(path)?;
    if facts.is_symlink() {
        return Ok(());
    }
    if facts.is_dir() {
        for entry in fs::read_dir(path)? {
            settle_times(&entry?.path())?;
        }
    }
    File::open(path)?.set_modified(SystemTime::UNIX_EPOCH + Duration::from_secs(MODIFIED_S))
}

/// Names in a tree, and bytes of its files.
pub(crate) fn extent(root: &Path) -> io::Result<(u64, u64)> {
    let (mut names, mut bytes) = (0, 0);
    for entry in fs::read_dir(root)? {
        let entry = entry?;
        let facts = entry.metadata()?;
        names += 1;
        if facts.is_dir() {
            let below = extent(&entry.path())?;
            names += below.0;
            bytes += below.1;
        } else {
            bytes += facts.len();
        }
    }
    Ok((names, bytes))
}

/// All directories of a tree, as programs name them that stand in it: `./a/b`.
pub(crate) fn directories(root: &Path) -> io::Result<HashSet<String>> {
    let mut found = HashSet::from([".".to_owned()]);
    let mut waiting = vec![(root.to_owned(), ".".to_owned())];
    while let Some((path, name)) = waiting.pop() {
        for entry in fs::read_dir(path)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() {
                let name = format!("{name}/{}", entry.file_name().to_string_lossy());
                found.insert(name.clone());
                waiting.push((entry.path(), name));
            }
        }
    }
    Ok(found)
}

/// What a fingerprint looks at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Look {
    /// Names, kinds, content, targets of links.
    Content,
    /// Also permissions and times.
    NoLinkCounts,
    /// Also link counts.
    Everything,
}

/// One line for everything below `root` but what is named in `without`, in the order of names.
pub(crate) fn fingerprint(root: &Path, look: Look, without: &[&str]) -> io::Result<Vec<String>> {
    let mut lines = Vec::new();
    collect(root, root, look, without, &mut lines)?;
    lines.sort();
    Ok(lines)
}

fn collect(
    root: &Path,
    path: &Path,
    look: Look,
    without: &[&str],
    lines: &mut Vec<String>,
) -> io::Result<()> {
    for entry in fs::read_dir(path)? {
        let entry = entry?;
        if without.iter().any(|name| entry.file_name() == *name) {
            continue;
        }
        let path = entry.path();
        lines.push(line(root, &path, look)?);
        if entry.file_type()?.is_dir() {
            collect(root, &path, look, without, lines)?;
        }
    }
    Ok(())
}

fn line(root: &Path, path: &Path, look: Look) -> io::Result<String> {
    let facts = fs::symlink_metadata(path)?;
    let kind = facts.file_type();
    let what = if kind.is_file() {
        format!("file of {} bytes, hash {:016x}", facts.len(), hash(path)?)
    } else if kind.is_symlink() {
        format!("link to {}", fs::read_link(path)?.display())
    } else if kind.is_dir() {
        "directory".to_owned()
    } else {
        format!("special file, fifo {}", kind.is_fifo())
    };
    let name = path.strip_prefix(root).unwrap_or(path).display();
    Ok(match look {
        Look::Content => format!("{name}: {what}"),
        // cp and tar give symbolic links a time too, but nobody asked for one.
        Look::Everything | Look::NoLinkCounts if kind.is_symlink() => format!("{name}: {what}"),
        Look::Everything | Look::NoLinkCounts => {
            let is_counted = look == Look::Everything && !kind.is_dir();
            let links = if is_counted { facts.nlink() } else { 0 };
            format!(
                "{name}: {what}, mode {:o}, time {}.{:09}, {links} links",
                facts.mode(),
                facts.mtime(),
                facts.mtime_nsec()
            )
        }
    })
}

fn hash(path: &Path) -> io::Result<u64> {
    let mut file = File::open(path)?;
    let mut hasher = DefaultHasher::new();
    let mut buffer = vec![0; 256 << 10];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finish()),
            bytes => hasher.write(&buffer[..bytes]),
        }
    }
}

/// The first difference between two fingerprints, for an error.
pub(crate) fn difference(expected: &[String], found: &[String]) -> Option<String> {
    if expected == found {
        return None;
    }
    let missing = expected.iter().find(|line| !found.contains(line));
    let extra = found.iter().find(|line| !expected.contains(line));
    Some(match (missing, extra) {
        (Some(missing), Some(extra)) => format!("expected \"{missing}\", found \"{extra}\""),
        (Some(missing), None) => format!("missing: {missing}"),
        (None, Some(extra)) => format!("not expected: {extra}"),
        (None, None) => "the same lines, but more than once".to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    #[test]
    fn two_trees_made_alike_have_one_fingerprint() {
        let (one, two) = (scratch(), scratch());
        assert_eq!(
            make(one.path(), true).unwrap(),
            make(two.path(), true).unwrap()
        );
        let prints =
            [&one, &two].map(|root| fingerprint(root.path(), Look::Everything, &[]).unwrap());
        assert!(prints[0].len() > 60);
        assert_eq!(difference(&prints[0], &prints[1]), None);
    }

    #[test]
    fn a_changed_byte_a_mode_and_a_missing_file_are_seen() {
        let root = scratch();
        make(root.path(), true).unwrap();
        let before = fingerprint(root.path(), Look::Everything, &[]).unwrap();
        let path = root.path().join("part 00").join(file_name(3));
        let mut changed = fs::read(&path).unwrap();
        changed[100] ^= 1;
        fs::write(&path, &changed).unwrap();
        settle_times(root.path()).unwrap();
        let after = fingerprint(root.path(), Look::Everything, &[]).unwrap();
        assert!(difference(&before, &after).unwrap().contains(&file_name(3)));

        changed[100] ^= 1;
        fs::write(&path, &changed).unwrap();
        settle_times(root.path()).unwrap();
        assert_eq!(
            fingerprint(root.path(), Look::Everything, &[]).unwrap(),
            before
        );
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        assert_ne!(
            fingerprint(root.path(), Look::Everything, &[]).unwrap(),
            before
        );
        let content = fingerprint(root.path(), Look::Content, &[]).unwrap();
        fs::remove_file(&path).unwrap();
        let less = fingerprint(root.path(), Look::Content, &[]).unwrap();
        assert!(
            difference(&content, &less)
                .unwrap()
                .starts_with("missing: ")
        );
    }
}
