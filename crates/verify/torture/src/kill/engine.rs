//! Calls made on the engine itself, as a program does that attaches the volume.

use super::files::{Attribute, Files};
use egeria_engine::format::BLOCK;
use egeria_engine::*;
use egeria_media::PoolIndex;

/// What new files are.
pub const FILE: NewInode = NewInode::of_root(libc::S_IFREG | 0o644);
/// What new directories are.
pub const DIRECTORY: NewInode = NewInode::of_root(libc::S_IFDIR | 0o755);

/// An attached volume as a tree of files.
pub struct Engine<'a>(pub &'a Volume);

impl Engine<'_> {
    /// Directory and last name of a path.
    fn parent<'p>(&self, path: &'p str) -> Outcome<(InodeNumber, &'p [u8])> {
        match path.rsplit_once('/') {
            None => Ok((InodeNumber::ROOT, path.as_bytes())),
            Some((directory, name)) => Ok((self.find(directory)?.ino, name.as_bytes())),
        }
    }

    fn find(&self, path: &str) -> Outcome<Attributes> {
        let (parent, name) = self.parent(path)?;
        self.0.lookup(parent, name)
    }

    fn make(&self, path: &str, new: &NewInode) -> Outcome<()> {
        let (parent, name) = self.parent(path)?;
        self.0.create(parent, name, new).map(drop)
    }

    fn renamed(&self, from: &str, to: &str, mode: RenameMode) -> Outcome<()> {
        let (from, name) = self.parent(from)?;
        let (to, new_name) = self.parent(to)?;
        self.0.rename(from, name, to, new_name, mode)
    }
}

impl Files for Engine<'_> {
    type File = FileReference;
    const LOST_RACE: &'static [i32] = &[libc::ENOENT, libc::EEXIST];

    fn access_path(&self) -> &'static str {
        "the engine"
    }

    fn create(&self, path: &str) -> Outcome<()> {
        self.make(path, &FILE)
    }

    fn open(&self, path: &str, _append: bool) -> Outcome<FileReference> {
        let found = self.find(path)?;
        self.0.open(found.ino, Some(found.generation))
    }

    fn close(&self, file: FileReference) {
        self.0.close(file.ino());
    }

    fn append(&self, file: &FileReference, data: &[u8]) -> Outcome<usize> {
        self.0.append(*file, data).map(|(_, written)| written)
    }

    fn write_at(&self, file: &FileReference, offset: u64, data: &[u8]) -> Outcome<usize> {
        self.0.write(*file, offset, data)
    }

    fn read_at(&self, file: &FileReference, offset: u64, data: &mut [u8]) -> Outcome<usize> {
        self.0.read(*file, offset, data)
    }

    fn read_all(&self, file: &FileReference) -> Outcome<Vec<u8>> {
        let mut data = vec![0xEE; self.0.size_bytes(*file)? as usize];
        let read = self.0.read(*file, 0, &mut data)?;
        data.truncate(read);
        Ok(data)
    }

    fn resize(&self, file: &FileReference, bytes: u64) -> Outcome<()> {
        let change = AttributeChange {
            size_bytes: Some(bytes),
            ..Default::default()
        };
        self.0.set_attributes(file.ino(), &change).map(drop)
    }

    fn punch(&self, file: &FileReference, offset: u64, bytes: u64) -> Outcome<()> {
        self.0
            .allocate(*file, offset, bytes, AllocateMode::PunchHole)
    }

    /// Every call is durable when it returns.
    fn sync(&self, _file: &FileReference) -> Outcome<()> {
        Ok(())
    }

    fn relocate(&self, file: &FileReference) -> Outcome<()> {
        if self.0.pools().len() < 2 {
            return Ok(());
        }
        let blocks = self.0.size_bytes(*file)?.div_ceil(BLOCK as u64);
        let ends = match blocks % 2 {
            0 => (PoolIndex(0), PoolIndex(1)),
            _ => (PoolIndex(1), PoolIndex(0)),
        };
        match self.0.relocate(*file, 0..blocks, ends) {
            // Striped files stay.
            Ok(_) | Err(Errno(libc::EOPNOTSUPP)) => Ok(()),
            Err(errno) => Err(errno),
        }
    }

    fn link(&self, from: &str, to: &str) -> Outcome<()> {
        // Held open: its number could be another's by then.
        let file = self.open(from, false)?;
        let linked = self
            .parent(to)
            .and_then(|(parent, name)| self.0.link(file.ino(), parent, name).map(drop));
        self.close(file);
        linked
    }

    fn unlink(&self, path: &str) -> Outcome<()> {
        let (parent, name) = self.parent(path)?;
        self.0.unlink(parent, name)
    }

    fn rename(&self, from: &str, to: &str) -> Outcome<()> {
        self.renamed(from, to, RenameMode::Replace)
    }

    fn rename_to_free(&self, from: &str, to: &str) -> Outcome<()> {
        self.renamed(from, to, RenameMode::NoReplace)
    }

    fn make_directory(&self, path: &str) -> Outcome<()> {
        self.make(path, &DIRECTORY)
    }

    fn remove_directory(&self, path: &str) -> Outcome<()> {
        let (parent, name) = self.parent(path)?;
        self.0.remove_directory(parent, name)
    }

    fn set_attribute(&self, path: &str, (name, value): Attribute) -> Outcome<()> {
        let ino = self.find(path)?.ino;
        self.0
            .set_xattr(ino, name.to_bytes(), value, XattrMode::Any)
    }

    fn stat(&self, path: &str) -> Outcome<()> {
        self.find(path).map(drop)
    }

    fn list_attributes(&self, path: &str) -> Outcome<()> {
        self.0.list_xattr(self.find(path)?.ino).map(drop)
    }

    fn find_hole(&self, file: &FileReference) -> Outcome<u64> {
        self.0.seek_hole(*file, 0)
    }

    fn stat_file_system(&self) -> Outcome<()> {
        std::hint::black_box(self.0.space(None));
        Ok(())
    }

    fn list(&self, path: &str) -> Outcome<Vec<String>> {
        let mut names = Vec::new();
        let mut each = |entry: &DirectoryEntry<'_>| {
            if !matches!(entry.name, b"." | b"..") {
                names.push(String::from_utf8_lossy(entry.name).into_owned());
            }
            true
        };
        let ino = match path {
            "" => InodeNumber::ROOT,
            _ => self.find(path)?.ino,
        };
        self.0.read_directory(ino, 0, &mut each)?;
        Ok(names)
    }
}
