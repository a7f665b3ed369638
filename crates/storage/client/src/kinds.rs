//! Descriptions of files, directories, data and space.

use egeria_engine::{Attributes, ExtentReport, FileKind, InodeNumber, Outcome, Volume};
use std::ffi::OsString;

/// What a file is.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[non_exhaustive]
pub enum FileType {
    /// Regular file.
    File,
    /// Directory.
    Directory,
    /// Symbolic link.
    Symlink,
    /// Pipe, socket or device: can be used only through a mount.
    Other,
}

/// What `stat` says of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Metadata {
    /// Number of the inode.
    pub inode: u64,
    /// Type and permission bits.
    pub mode: u32,
    /// Number of names.
    pub links: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Size, bytes.
    pub size_bytes: u64,
    /// Space it takes, bytes.
    pub allocated_bytes: u64,
    /// Last access time that was set explicitly, ns since the epoch.
    pub accessed_ns: i64,
    /// Last change of its data, ns since the epoch.
    pub modified_ns: i64,
    /// Last change of the inode, ns since the epoch.
    pub changed_ns: i64,
}

impl Metadata {
    pub(crate) fn of(volume: &Volume, attributes: &Attributes) -> Metadata {
        volume.note_times_shown(attributes.ino);
        Metadata {
            inode: attributes.ino.0,
            mode: attributes.mode,
            links: attributes.nlink,
            uid: attributes.uid,
            gid: attributes.gid,
            size_bytes: attributes.size_bytes,
            allocated_bytes: attributes.blocks * 4096,
            accessed_ns: attributes.atime_ns,
            modified_ns: attributes.mtime_ns,
            changed_ns: attributes.ctime_ns,
        }
    }

    /// What it is.
    pub fn file_type(&self) -> FileType {
        FileKind::from_mode(self.mode).map_or(FileType::Other, file_type)
    }
}

/// A name in a directory.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct DirectoryEntry {
    /// The name.
    pub name: OsString,
    /// Number of its inode.
    pub inode: u64,
    /// What it is.
    pub file_type: FileType,
}

/// A part of a file's data, on one node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Part {
    /// Where it begins in the file.
    pub offset_bytes: u64,
    /// How long it is; a multiple of the block size, so the last one may go beyond the end of file.
    pub length_bytes: u64,
    /// The NUMA node that holds it.
    pub node: u16,
    /// The pool that holds it, by its index in the volume.
    pub pool: u16,
}

/// Space of a volume, bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Space {
    /// For data, in all.
    pub total_bytes: u64,
    /// Of it, free.
    pub free_bytes: u64,
}

pub(crate) fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::Regular => FileType::File,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        _ => FileType::Other,
    }
}

/// Which nodes hold the data of a file; adjacent runs on one pool are one part.
pub(crate) fn parts(volume: &egeria_engine::Volume, ino: InodeNumber) -> Outcome<Vec<Part>> {
    let part = |extent: &ExtentReport| Part {
        offset_bytes: extent.file_offset_bytes,
        length_bytes: extent.length_bytes,
        node: extent.node,
        pool: extent.pool.into(),
    };
    let mut parts: Vec<Part> = Vec::new();
    for next in volume.extents(ino)?.iter().map(part) {
        match parts.last_mut() {
            Some(last)
                if last.pool == next.pool
                    && last.offset_bytes + last.length_bytes == next.offset_bytes =>
            {
                last.length_bytes += next.length_bytes;
            }
            _ => parts.push(next),
        }
    }
    Ok(parts)
}
