//! The calls a worker makes, whichever way they go.

use egeria_engine::Outcome;

/// The attribute of a directory that says so, and its value.
pub const CHECKSUMS: Attribute = (c"user.egeria.checksum", b"crc32c");
/// Stripes for the data of what is made in a directory.
pub const STRIPES: Attribute = (c"user.egeria.layout", b"striped:8192");

/// What a worker gives its own directory.
pub fn attributes_of(worker: u64) -> impl Iterator<Item = Attribute> {
    let attributes = [(worker % 2 == 1, CHECKSUMS), (worker % 3 == 1, STRIPES)];
    let has = attributes.into_iter().filter(|(has, _)| *has);
    has.map(|(_, attribute)| attribute)
}

/// Name and value of an extended attribute.
pub type Attribute = (&'static std::ffi::CStr, &'static [u8]);

/// A tree of files by relative path.
pub trait Files {
    type File;
    /// What a rename of a name that others move may say, beside that it is there or not.
    const LOST_RACE: &'static [i32];

    /// Which way the calls go, for reports.
    fn access_path(&self) -> &'static str;
    /// Whether the kernel may send a write in parts, each to the end of a page.
    fn splits_writes(&self) -> bool {
        false
    }
    /// A new file; `EEXIST` when the name is taken.
    fn create(&self, path: &str) -> Outcome<()>;
    /// Open for reading and writing, or for appending.
    fn open(&self, path: &str, append: bool) -> Outcome<Self::File>;
    /// Open for reading and writing, so that each write is made as a whole or not at all.
    fn open_for_whole_writes(&self, path: &str) -> Outcome<Self::File> {
        self.open(path, false)
    }
    fn close(&self, file: Self::File);
    fn append(&self, file: &Self::File, data: &[u8]) -> Outcome<usize>;
    fn write_at(&self, file: &Self::File, offset: u64, data: &[u8]) -> Outcome<usize>;
    fn read_at(&self, file: &Self::File, offset: u64, data: &mut [u8]) -> Outcome<usize>;
    /// All of a file that nobody else changes.
    fn read_all(&self, file: &Self::File) -> Outcome<Vec<u8>>;
    fn resize(&self, file: &Self::File, bytes: u64) -> Outcome<()>;
    fn punch(&self, file: &Self::File, offset: u64, bytes: u64) -> Outcome<()>;
    fn sync(&self, file: &Self::File) -> Outcome<()>;
    /// Have its data moved to another pool, where the way can say so.
    fn relocate(&self, _: &Self::File) -> Outcome<()> {
        Ok(())
    }
    fn link(&self, from: &str, to: &str) -> Outcome<()>;
    fn unlink(&self, path: &str) -> Outcome<()>;
    fn rename(&self, from: &str, to: &str) -> Outcome<()>;
    /// A rename that replaces nothing.
    fn rename_to_free(&self, from: &str, to: &str) -> Outcome<()>;
    fn make_directory(&self, path: &str) -> Outcome<()>;
    fn remove_directory(&self, path: &str) -> Outcome<()>;
    /// An attribute of a directory.
    fn set_attribute(&self, path: &str, attribute: Attribute) -> Outcome<()>;
    /// Look at the attributes of a name.
    fn stat(&self, path: &str) -> Outcome<()>;
    /// Look at the extended attributes of a name.
    fn list_attributes(&self, path: &str) -> Outcome<()>;
    /// The first hole in a file, or its end.
    fn find_hole(&self, file: &Self::File) -> Outcome<u64>;
    /// Ask how much room there is.
    fn stat_file_system(&self) -> Outcome<()>;
    /// Names in a directory but `.` and `..`.
    fn list(&self, path: &str) -> Outcome<Vec<String>>;
}
