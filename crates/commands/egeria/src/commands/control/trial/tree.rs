//! The content of a directory: to compare it with a copy, and to see later what of the copy was changed.

use std::collections::BTreeMap;
use std::fs::{self, File, Metadata};
use std::hash::{DefaultHasher, Hasher};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::signals::Signals;

/// Read at once.
const CHUNK_BYTES: usize = 1 << 20;

/// Everything below a directory, by its path below that. Other file systems that are mounted below are left out.
pub(super) struct Tree {
    entries: BTreeMap<PathBuf, Entry>,
}

struct Entry {
    /// Kind and permissions.
    mode: u32,
    content: Content,
    stamp: Stamp,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Content {
    File { bytes: u64, checksum: u64 },
    Link(PathBuf),
    Other,
}

/// What the file system changes with the content.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stamp {
    inode: u64,
    bytes: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// What of a tree is as it was.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Kept {
    /// Files that no program has changed, and whose content is what it was.
    pub(super) unchanged: usize,
    /// Files that were written, replaced or removed.
    pub(super) changed: usize,
}

impl Tree {
    /// Reads all files below a directory.
    pub(super) fn read(root: &Path, signals: &Signals) -> Outcome<Tree> {
        let failed = |error: io::Error| {
            let hint = "make all of it readable, and let no program change it";
            Failure::io("read all of", root, &error, hint)
        };
        let device = fs::metadata(root).map_err(failed)?.dev();
        let mut entries = BTreeMap::new();
        let mut left = vec![PathBuf::new()];
        while let Some(below) = left.pop() {
            signals.check()?;
            let path = root.join(&below);
            let metadata = if below.as_os_str().is_empty() {
                fs::metadata(&path).map_err(failed)?
            } else {
                fs::symlink_metadata(&path).map_err(failed)?
            };
            if metadata.is_dir() && metadata.dev() == device {
                for entry in fs::read_dir(&path).map_err(failed)? {
                    left.push(below.join(entry.map_err(failed)?.file_name()));
                }
            }
            let entry = entry(&path, &metadata, signals)?.map_err(failed)?;
            entries.insert(below, entry);
        }
        Ok(Tree { entries })
    }

    /// Regular files, and their bytes.
    pub(super) fn size(&self) -> (usize, u64) {
        let bytes = self
            .entries
            .values()
            .filter_map(|entry| match entry.content {
                Content::File { bytes, .. } => Some(bytes),
                _ => None,
            });
        bytes.fold((0, 0), |(files, sum), bytes| (files + 1, sum + bytes))
    }

    /// The first path whose content is another in the copy, or that only one of the two has.
    pub(super) fn difference(&self, copy: &Tree) -> Option<PathBuf> {
        let of = |tree: &Tree, path: &PathBuf| {
            let entry = tree.entries.get(path);
            entry.map(|entry| (entry.mode, entry.content.clone()))
        };
        let paths = self.entries.keys().chain(copy.entries.keys());
        let mut different = paths.filter(|path| of(self, path) != of(copy, path));
        different.next().cloned()
    }

    /// Reads the files again that no program has changed since this was read, below the same directory. A file that is
    /// another without having been changed is damage.
    pub(super) fn check(&self, root: &Path, signals: &Signals) -> Outcome<Kept> {
        let mut kept = Kept::default();
        let files = self.entries.iter();
        for (below, entry) in files.filter(|(_, entry)| entry.content.is_file()) {
            let path = root.join(below);
            let is_same = |metadata: &Metadata| Stamp::of(metadata) == entry.stamp;
            let metadata = fs::symlink_metadata(&path).ok().filter(is_same);
            let Some(metadata) = metadata else {
                kept.changed += 1;
                continue;
            };
            let now = content(&path, &metadata, signals)?;
            let failed = |error| Failure::io("read", &path, &error, "see `egeria scrub`");
            if now.map_err(failed)? != entry.content {
                return Err(Failure::new(format!(
                    "{} is not what was copied, and no program has changed it; nothing is claimed; please report it",
                    path.display()
                )));
            }
            kept.unchanged += 1;
        }
        Ok(kept)
    }
}

impl Content {
    fn is_file(&self) -> bool {
        matches!(self, Content::File { .. })
    }
}

impl Stamp {
    fn of(metadata: &Metadata) -> Stamp {
        Stamp {
            inode: metadata.ino(),
            bytes: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }
}

fn entry(path: &Path, metadata: &Metadata, signals: &Signals) -> Outcome<io::Result<Entry>> {
    let content = content(path, metadata, signals)?;
    Ok(content.map(|content| Entry {
        mode: metadata.mode(),
        content,
        stamp: Stamp::of(metadata),
    }))
}

fn content(path: &Path, metadata: &Metadata, signals: &Signals) -> Outcome<io::Result<Content>> {
    if metadata.is_symlink() {
        return Ok(fs::read_link(path).map(Content::Link));
    }
    if !metadata.is_file() {
        return Ok(Ok(Content::Other));
    }
    // It may have been replaced by a pipe, which would never open.
    let mut options = File::options();
    let options = options
        .read(true)
        .custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
    let mut file = match options.open(path) {
        Ok(file) => file,
        Err(error) => return Ok(Err(error)),
    };
    let (mut hasher, mut bytes) = (DefaultHasher::new(), 0);
    let mut chunk = vec![0; CHUNK_BYTES];
    loop {
        signals.check()?;
        match file.read(&mut chunk) {
            Ok(0) => break,
            Ok(read) => {
                hasher.write(&chunk[..read]);
                bytes += read as u64;
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Ok(Err(error)),
        }
    }
    let checksum = hasher.finish();
    Ok(Ok(Content::File { bytes, checksum }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(root: &Path) -> Tree {
        Tree::read(root, &Signals::install().unwrap()).unwrap()
    }

    #[test]
    fn a_copy_that_differs_anywhere_is_named() {
        let [one, other] = [(); 2].map(|()| {
            let directory = tempfile::tempdir().unwrap();
            fs::create_dir(directory.path().join("below")).unwrap();
            fs::write(directory.path().join("below/file"), "text").unwrap();
            std::os::unix::fs::symlink("below", directory.path().join("link")).unwrap();
            directory
        });
        let first = read(one.path());
        assert_eq!(first.size(), (1, 4));
        assert_eq!(first.difference(&read(other.path())), None);
        let differs = |path: &str| {
            let difference = first.difference(&read(other.path()));
            assert_eq!(difference, Some(PathBuf::from(path)));
        };
        fs::write(other.path().join("below/file"), "next").unwrap();
        differs("below/file");
        fs::write(other.path().join("below/file"), "text").unwrap();
        fs::write(other.path().join("more"), "").unwrap();
        differs("more");
        fs::remove_file(other.path().join("more")).unwrap();
        fs::remove_file(other.path().join("link")).unwrap();
        std::os::unix::fs::symlink("other", other.path().join("link")).unwrap();
        differs("link");
    }

    #[test]
    fn damage_is_told_from_a_change() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "text").unwrap();
        fs::write(directory.path().join("other"), "text").unwrap();
        let mut tree = read(directory.path());
        let signals = Signals::install().unwrap();
        let checked = |tree: &Tree| tree.check(directory.path(), &signals);
        let kept = |unchanged, changed| Kept { unchanged, changed };
        assert_eq!(checked(&tree), Ok(kept(2, 0)));
        fs::write(&path, "something else").unwrap();
        assert_eq!(checked(&tree), Ok(kept(1, 1)));
        // As if the file had been changed without a trace.
        let entry = tree.entries.get_mut(Path::new("file")).unwrap();
        entry.stamp = Stamp::of(&fs::metadata(&path).unwrap());
        let Err(Failure::Cause(line)) = checked(&tree) else {
            panic!("damage was not seen");
        };
        assert!(line.contains("not what was copied"), "{line}");
    }
}
