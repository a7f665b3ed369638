//! The native half of the Python package `egeria`: `egeria_client` with Python's errors and buffers. What programs
//! see is in `egeria/__init__.py`.

use egeria_client::{Error, FileType, Metadata, OpenOptions, Part};
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyBufferError, PyOSError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::ffi::OsString;
use std::os::fd::IntoRawFd;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, Weak};

/// An `OSError` of the class that the errno has: `FileNotFoundError` and its kin.
fn os_error(error: Error) -> PyErr {
    PyOSError::new_err((error.errno(), error.message().to_owned()))
}

/// `(offset, length, node)`
type Place = (u64, u64, u16);

fn places(parts: Vec<Part>) -> Vec<Place> {
    let place = |part: Part| (part.offset_bytes, part.length_bytes, part.node);
    parts.into_iter().map(place).collect()
}

fn type_name(kind: FileType) -> &'static str {
    match kind {
        FileType::File => "file",
        FileType::Directory => "directory",
        FileType::Symlink => "link",
        _ => "other",
    }
}

/// What is known of a file: type, size, mode, uid, gid, inode, mtime in ns.
type Status = (&'static str, u64, u32, u32, u32, u64, i64);

fn status(found: &Metadata) -> Status {
    (
        type_name(found.file_type()),
        found.size_bytes,
        found.mode,
        found.uid,
        found.gid,
        found.inode,
        found.modified_ns,
    )
}

/// An attached volume.
#[pyclass(frozen, module = "egeria._egeria")]
struct NativeVolume(RwLock<Attached>);

/// What a volume holds until it is closed.
#[derive(Default)]
struct Attached {
    volume: Option<egeria_client::Volume>,
    /// Its files: they are closed with it.
    files: Vec<Weak<RwLock<Opened>>>,
}

fn read<T>(lock: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    lock.read().unwrap_or_else(PoisonError::into_inner)
}

fn write<T>(lock: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    lock.write().unwrap_or_else(PoisonError::into_inner)
}

fn volume_was_closed() -> PyErr {
    PyValueError::new_err("the volume was closed")
}

impl NativeVolume {
    /// Without Python's lock.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&egeria_client::Volume) -> egeria_client::Result<T> + Send,
    ) -> PyResult<T> {
        // A handle of its own, so that a long call keeps no other thread from closing.
        let volume = py.detach(|| read(&self.0).volume.clone());
        let volume = volume.ok_or_else(volume_was_closed)?;
        py.detach(move || body(&volume)).map_err(os_error)
    }

    /// A file that is closed with the volume.
    fn keep(&self, file: egeria_client::File) -> PyResult<NativeFile> {
        let mut attached = write(&self.0);
        if attached.volume.is_none() {
            return Err(volume_was_closed());
        }
        let file = Arc::new(RwLock::new(Opened::File(file)));
        attached.files.retain(|file| file.strong_count() > 0);
        attached.files.push(Arc::downgrade(&file));
        Ok(NativeFile(file))
    }
}

#[pymethods]
impl NativeVolume {
    #[new]
    fn attach(py: Python<'_>, pool: PathBuf, read_only: bool) -> PyResult<NativeVolume> {
        let attached = py.detach(|| if read_only {
egeria_client::Volume::attach_read_only(pool)
} else {
egeria_client::Volume::attach(pool)
});
        let volume = attached.map_err(os_error)?;
        Ok(NativeVolume(RwLock::new(Attached {
            volume: Some(volume),
            files: Vec::new(),
        })))
    }

    /// Whether it is open, and this process attached it.
    fn is_attached_here(&self, py: Python<'_>) -> bool {
        self.with(py, |volume| Ok(volume.is_attached_here()))
            .unwrap_or(false)
    }

    /// Closes its files as well, and waits for calls of other threads on them.
    fn close(&self, py: Python<'_>) {
        py.detach(|| {
            let attached = std::mem::take(&mut *write(&self.0));
            for file in attached.files.iter().filter_map(Weak::upgrade) {
                let mut file = write(&file);
                if matches!(*file, Opened::File(_)) {
                    *file = Opened::VolumeClosed;
                }
            }
        });
    }

    fn nodes(&self, py: Python<'_>) -> PyResult<Vec<u16>> {
        self.with(py, |volume| Ok(volume.nodes()))
    }

    /// Bytes in all, and free.
    fn space(&self, py: Python<'_>) -> PyResult<(u64, u64)> {
        let space = self.with(py, |volume| volume.space())?;
        Ok((space.total_bytes, space.free_bytes))
    }

    /// `how`: letters of `r`ead, `w`rite, `c`reate, create e`x`clusively, `t`runcate.
    fn open(&self, py: Python<'_>, path: PathBuf, how: &str, mode: u32) -> PyResult<NativeFile> {
        let has = |letter| how.contains(letter);
        let mut options = OpenOptions::new();
        options
            .read(has('r'))
            .write(has('w'))
            .create(has('c'))
            .create_new(has('x'))
            .truncate(has('t'))
            .mode(mode);
        let file = self.with(py, move |volume| volume.open(path, &options))?;
        py.detach(|| self.keep(file))
    }

    fn stat(&self, py: Python<'_>, path: PathBuf, follow: bool) -> PyResult<Status> {
        let found = self.with(py, move |volume| if follow {
volume.metadata(path)
} else {
volume.symlink_metadata(path)
});
        found.map(|found| status(&found))
    }

    /// Names and types.
    fn list(&self, py: Python<'_>, path: PathBuf) -> PyResult<Vec<(OsString, &'static str)>> {
        let listed = self.with(py, |volume| volume.read_directory(path))?;
        let named = listed.into_iter();
        Ok(named
            .map(|entry| (entry.name, type_name(entry.file_type)))
            .collect())
    }

    fn mkdir(&self, py: Python<'_>, path: PathBuf, mode: u32) -> PyResult<()> {
        self.with(py, |volume| volume.create_directory(path, mode))
    }

    fn rmdir(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.with(py, |volume| volume.remove_directory(path))
    }

    fn unlink(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        self.with(py, |volume| volume.remove_file(path))
    }

    fn rename(&self, py: Python<'_>, from: PathBuf, to: PathBuf) -> PyResult<()> {
        self.with(py, |volume| volume.rename(from, to))
    }

    fn exists(&self, py: Python<'_>, path: PathBuf) -> PyResult<bool> {
        self.with(py, |volume| volume.exists(path))
    }

    fn symlink(&self, py: Python<'_>, target: PathBuf, path: PathBuf) -> PyResult<()> {
        self.with(py, |volume| volume.symlink(target, path))
    }

    fn link(&self, py: Python<'_>, existing: PathBuf, path: PathBuf) -> PyResult<()> {
        self.with(py, |volume| volume.hard_link(existing, path))
    }

    fn readlink(&self, py: Python<'_>, path: PathBuf) -> PyResult<OsString> {
        let target = self.with(py, |volume| volume.read_link(path))?;
        Ok(target.into_os_string())
    }

    fn get_xattr<'py>(
        &self,
        py: Python<'py>,
        path: PathBuf,
        name: OsString,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let value = self.with(py, |volume| volume.xattr(path, name))?;
        Ok(PyBytes::new(py, &value))
    }

    fn list_xattr(&self, py: Python<'_>, path: PathBuf) -> PyResult<Vec<OsString>> {
        self.with(py, |volume| volume.xattr_names(path))
    }

    fn set_xattr(&self, py: Python<'_>, path: PathBuf, name: OsString, value: Vec<u8>) -> PyResult<()> {
        self.with(py, move |volume| volume.set_xattr(path, name, &value))
    }

    fn remove_xattr(&self, py: Python<'_>, path: PathBuf, name: OsString) -> PyResult<()> {
        self.with(py, |volume| volume.remove_xattr(path, name))
    }

    fn locate(&self, py: Python<'_>, path: PathBuf) -> PyResult<Vec<Place>> {
        self.with(py, |volume| volume.locate(path)).map(places)
    }
}

/// An open file. A reader of the lock is never kept waiting for Python's own.
#[pyclass(frozen, module = "egeria._egeria")]
struct NativeFile(Arc<RwLock<Opened>>);

enum Opened {
    File(egeria_client::File),
    Closed,
    /// It was open when its volume was closed.
    VolumeClosed,
}

impl NativeFile {
    /// Without Python's lock.
    fn with<T: Send>(
        &self,
        py: Python<'_>,
        body: impl FnOnce(&egeria_client::File) -> egeria_client::Result<T> + Send,
    ) -> PyResult<T> {
        let done = py.detach(|| match &*read(&self.0) {
            Opened::File(file) => Ok(body(file)),
            Opened::Closed => Err("I/O operation on closed file"),
            Opened::VolumeClosed => Err("I/O operation on a file whose volume was closed"),
        });
        done.map_err(PyValueError::new_err)?.map_err(os_error)
    }
}

/// Memory of a buffer that Python holds in place meanwhile.
struct Memory {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: the buffer stays where it is; what programs do with it at the same time is theirs to order.
unsafe impl Send for Memory {}

impl Memory {
    fn of(buffer: &PyBuffer<u8>) -> PyResult<Memory> {
        if buffer.is_c_contiguous() {
Ok(Memory {
                start: buffer.buf_ptr().cast(),
                bytes: buffer.len_bytes(),
            })
} else {
Err(PyBufferError::new_err("the buffer is not contiguous"))
}
    }
}

#[pymethods]
impl NativeFile {
    /// Read into a writable buffer, without another copy.
    fn readinto_at(&self, py: Python<'_>, buffer: PyBuffer<u8>, offset: u64) -> PyResult<usize> {
        if buffer.readonly() {
            return Err(PyBufferError::new_err("the buffer cannot be written"));
        }
        let memory = Memory::of(&buffer)?;
        self.with(py, move |file| {
            let memory = memory;
            // SAFETY: the buffer is held until this returns.
            unsafe { file.read_raw(memory.start, memory.bytes, offset) }
        })
    }

    /// Read to new bytes, straight into them.
    fn read_at<'py>(
        &self,
        py: Python<'py>,
        bytes: usize,
        offset: u64,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let size = self.with(py, |file| file.size_bytes())?;
        let there = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let wanted = bytes.min(there);
        let mut done = 0;
        let read = PyBytes::new_with(py, wanted, |buffer| {
            let memory = Memory {
                start: buffer.as_mut_ptr(),
                bytes: buffer.len(),
            };
            done = self.with(py, move |file| {
                let memory = memory;
                // SAFETY: nobody else knows these bytes yet.
                unsafe { file.read_raw(memory.start, memory.bytes, offset) }
            })?;
            Ok(())
        })?;
        if done < wanted {
            // Cut meanwhile.
Ok(PyBytes::new(py, &read.as_bytes()[..done]))
} else {
Ok(read)
}
    }

    /// Write all of a buffer.
    fn write_at(&self, py: Python<'_>, buffer: PyBuffer<u8>, offset: u64) -> PyResult<usize> {
        let memory = Memory::of(&buffer)?;
        self.with(py, move |file| {
            let memory = memory;
            let mut done = 0;
            while done < memory.bytes {
                let at = offset.saturating_add(done as u64);
                // SAFETY: the buffer is held until this returns.
                match unsafe { file.write_raw(memory.start.add(done), memory.bytes - done, at) }? {
                    0 => break,
                    more => done += more,
                }
            }
            Ok(done)
        })
    }

    /// Write all of a buffer at the end: where it begins. In one step unless space runs out.
    fn append(&self, py: Python<'_>, buffer: PyBuffer<u8>) -> PyResult<(u64, usize)> {
        let memory = Memory::of(&buffer)?;
        self.with(py, move |file| {
            let memory = memory;
            // SAFETY: the buffer is held until this returns.
            unsafe { file.append_raw(memory.start, memory.bytes) }
        })
    }

    fn size(&self, py: Python<'_>) -> PyResult<u64> {
        self.with(py, |file| file.size_bytes())
    }

    fn truncate(&self, py: Python<'_>, size: u64) -> PyResult<()> {
        self.with(py, |file| file.set_size(size))
    }

    fn sync(&self, py: Python<'_>) -> PyResult<()> {
        self.with(py, |file| file.sync())
    }

    /// A descriptor of its own, which the caller closes.
    fn through_mount(&self, py: Python<'_>) -> PyResult<i32> {
        let file = self.with(py, |file| file.through_mount())?;
        Ok(file.into_raw_fd())
    }

    fn stat(&self, py: Python<'_>) -> PyResult<Status> {
        self.with(py, |file| file.metadata())
            .map(|found| status(&found))
    }

    fn locate(&self, py: Python<'_>) -> PyResult<Vec<Place>> {
        self.with(py, |file| file.locate()).map(places)
    }

    /// Waits for calls of other threads on it.
    fn close(&self, py: Python<'_>) {
        py.detach(|| *write(&self.0) = Opened::Closed);
    }
}

/// The native half of `egeria`.
#[pymodule]
fn _egeria(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<NativeVolume>()?;
    module.add_class::<NativeFile>()?;
    module.add("__version__", env!("CARGO_PKG_VERSION"))
}
