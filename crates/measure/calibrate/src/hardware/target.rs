//! What is measured: the DRAM of each node, and pools.

use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use egeria_machine::{MemoryKind, NodeId};
use rustix::fs::{FallocateFlags, Mode, OFlags};

use crate::CalibrateError;
use crate::hardware::kernels::Line;
use crate::hardware::mapping::{MapFault, Mapping};

/// A pool to measure.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolRequest {
    /// The node it belongs to.
    pub node: NodeId,
    /// A directory, the name of a file that is not there yet, or a device-DAX device.
    pub path: PathBuf,
}

/// A memory, and buffers in it.
pub(crate) struct Target {
    /// Position of its node.
    pub(crate) node: usize,
    pub(crate) kind: MemoryKind,
    /// Where it is, for people; none for the node's own memory.
    pub(crate) path: Option<PathBuf>,
    /// Stores reach it without the page cache.
    pub(crate) is_direct: bool,
    /// Size of the medium, as far as it is known; 0 when not.
    pub(crate) bytes: u64,
    /// Buffer and chain, one after the other.
    pub(crate) memory: Mapping,
    pub(crate) buffer_lines: usize,
    /// Where the chain was left.
    pub(crate) at: usize,
}

impl Target {
    pub(crate) fn buffer(&mut self) -> &mut [Line] {
        let lines = self.buffer_lines;
        &mut self.memory.lines()[..lines]
    }

    /// One chain of loads, and where it was left.
    pub(crate) fn chain(&mut self) -> (&mut [Line], &mut usize) {
        let lines = self.buffer_lines;
        (&mut self.memory.lines()[lines..], &mut self.at)
    }
}

/// A pool that is open, and how large its medium is.
pub(crate) struct OpenPool {
    file: File,
    bytes: u64,
}

impl OpenPool {
    /// Opens it with room for `needed` bytes that are nobody's. Files are gone when they are closed.
    ///
    /// # Errors
    /// When it holds something, is no place for a file, or is too small.
    pub(crate) fn open(
        path: &Path,
        needed: u64,
        may_overwrite_devices: bool,
    ) -> Result<OpenPool, CalibrateError> {
        match fs::metadata(path) {
            Ok(metadata) if metadata.is_dir() => reserve(path, nameless(path)?, needed),
            Ok(metadata) if metadata.file_type().is_char_device() => {
                device(path, &metadata, needed, may_overwrite_devices)
            }
            Ok(_) => Err(fault(
                path,
                "measuring would overwrite what it holds",
                "name a directory of that file system, or a file that is not there yet",
            )),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                reserve(path, new_and_unlinked(path)?, needed)
            }
            Err(error) => Err(cannot_open(path, &error)),
        }
    }

    /// So many of its bytes, and whether stores reach them without the page cache.
    pub(crate) fn map(
        &self,
        path: &Path,
        bytes: usize,
        is_stopped: &dyn Fn() -> bool,
    ) -> Result<(Mapping, bool), CalibrateError> {
        let place = || path.display().to_string();
        Mapping::of_file(&self.file, bytes, is_stopped)
            .map_err(|map_fault| of_map_fault(map_fault, place(), bytes as u64, None))
    }

    /// Size of the medium.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// What a fault of mapping means for who asked.
pub(crate) fn of_map_fault(
    fault: MapFault,
    place: String,
    bytes: u64,
    node: Option<NodeId>,
) -> CalibrateError {
    match fault {
        MapFault::Memory(cause) => CalibrateError::Map {
            place,
            bytes,
            cause,
        },
        MapFault::Bind(cause) => CalibrateError::Bind {
            node: node.map_or(0, |node| node.0),
            cause,
        },
        MapFault::Stopped => CalibrateError::Stopped,
    }
}

fn fault(path: &Path, problem: impl Into<String>, hint: &'static str) -> CalibrateError {
    CalibrateError::Pool {
        path: path.to_owned(),
        problem: problem.into(),
        hint,
    }
}

fn cannot_open(path: &Path, error: &io::Error) -> CalibrateError {
    let problem = format!("it cannot be used: {error}");
    fault(
        path,
        problem,
        "name a directory you may write to, or a device",
    )
}

/// A file without a name in this directory.
fn nameless(directory: &Path) -> Result<File, CalibrateError> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::open(directory, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => Ok(File::from(file)),
        // File systems that cannot: hugetlbfs among them.
        Err(rustix::io::Errno::OPNOTSUPP) => {
            let name = format!(".egeria-calibrate-{}", std::process::id());
            new_and_unlinked(&directory.join(name))
        }
        Err(error) => Err(cannot_open(directory, &error.into())),
    }
}

fn new_and_unlinked(path: &Path) -> Result<File, CalibrateError> {
    let mut options = File::options();
    options.read(true).write(true).create_new(true).mode(0o600);
    let file = options
        .open(path)
        .map_err(|error| cannot_open(path, &error))?;
    fs::remove_file(path).map_err(|error| cannot_open(path, &error))?;
    Ok(file)
}

/// Room is taken at once: a store to a page that the file system cannot give later is a signal.
fn reserve(path: &Path, file: File, needed: u64) -> Result<OpenPool, CalibrateError> {
    rustix::fs::fallocate(file.as_fd(), FallocateFlags::empty(), 0, needed).map_err(|error| {
        let problem = format!("no room for {needed} bytes: {}", io::Error::from(error));
        fault(path, problem, "free some, or use a smaller buffer")
    })?;
    let system = rustix::fs::fstatvfs(&file).map_err(|error| cannot_open(path, &error.into()))?;
    Ok(OpenPool {
        file,
        bytes: system.f_blocks.saturating_mul(system.f_frsize),
    })
}

fn device(
    path: &Path,
    metadata: &fs::Metadata,
    needed: u64,
    may_overwrite: bool,
) -> Result<OpenPool, CalibrateError> {
    let numbers = metadata.rdev();
    let (major, minor) = (rustix::fs::major(numbers), rustix::fs::minor(numbers));
    let size = fs::read_to_string(format!("/sys/dev/char/{major}:{minor}/size"));
    let Some(bytes) = size.ok().and_then(|text| text.trim().parse::<u64>().ok()) else {
        return Err(fault(
            path,
            "it is no device-DAX device",
            "name a directory, or /dev/daxX.Y",
        ));
    };
    if !may_overwrite {
        let hint = "allow that if it holds nothing of value";
        return Err(fault(path, "measuring overwrites the device", hint));
    }
    if bytes < needed {
        let problem = format!("it has {bytes} bytes and {needed} are needed");
        return Err(fault(path, problem, "use a smaller buffer"));
    }
    let mut options = File::options();
    let file = options.read(true).write(true).open(path);
    let file = file.map_err(|error| cannot_open(path, &error))?;
    Ok(OpenPool { file, bytes })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEEDED: u64 = 1 << 20;

    fn refusal(path: &Path) -> String {
        let error = OpenPool::open(path, NEEDED, false).err().expect("refused");
        let line = error.to_string();
        assert_eq!(line.lines().count(), 1, "{line}");
        assert!(line.contains(&path.display().to_string()), "{line}");
        line
    }

    #[test]
    fn a_directory_and_a_new_name_give_room_and_keep_nothing() {
        let directory = tempfile::tempdir().unwrap();
        for path in [directory.path().to_owned(), directory.path().join("new")] {
            let pool = OpenPool::open(&path, NEEDED, false).unwrap();
            assert!(pool.bytes() >= NEEDED);
            let (mut mapping, _) = pool.map(&path, NEEDED as usize, &|| false).unwrap();
            mapping.lines()[0].0[0] = 1;
            assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 0);
        }
    }

    #[test]
    fn what_is_there_is_never_overwritten() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("precious");
        fs::write(&path, "data").unwrap();
        assert!(refusal(&path).contains("overwrite what it holds"));
        let link = directory.path().join("link");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert!(refusal(&link).contains("overwrite what it holds"));
        assert_eq!(fs::read_to_string(&path).unwrap(), "data");
    }

    #[test]
    fn what_is_no_place_for_a_pool_is_refused() {
        for path in ["/dev/zero", "/dev/null"] {
            assert!(refusal(Path::new(path)).contains("no device-DAX device"));
        }
        refusal(Path::new("/proc"));
        refusal(Path::new("/nonexistent/directory/pool"));
        refusal(Path::new(""));
        let directory = tempfile::tempdir().unwrap();
        let dangling = directory.path().join("dangling");
        std::os::unix::fs::symlink("/nonexistent", &dangling).unwrap();
        refusal(&dangling);
        let full = OpenPool::open(directory.path(), 1 << 60, false).err();
        assert!(full.unwrap().to_string().contains("no room"));
    }
}
