"""Egeria volumes: files in the memory of every NUMA node, read and written without the kernel.

    volume = egeria.Volume("/mnt/pmem0/pool")
    with volume.open("/array", "w+b") as file:
        file.write(array)              # any contiguous buffer, durable when it returns
        file.seek(0)
        file.readinto(array)           # straight into its memory
    for part in volume.where("/array"):
        print(part.offset, part.length, part.node)

Paths begin at the root of the volume. Files have no buffer of Python's: each call is one access. A volume and its files belong to
the process that made them: in a forked child they raise ``OSError`` with ``errno.ENOTCONN``, and the child makes its own.
"""

import io
import mmap
import os
from typing import NamedTuple

from ._egeria import NativeVolume as _NativeVolume
from ._egeria import __version__

__all__ = ["File", "Part", "Space", "Status", "Volume", "where", "__version__"]


class Part(NamedTuple):
    """A part of a file's data, on one NUMA node. The last one may go beyond the end of file."""

    offset: int
    length: int
    node: int


class Space(NamedTuple):
    """Space of a volume for data, bytes."""

    total: int
    free: int


class Status(NamedTuple):
    """What is known of a file. ``type`` is "file", "directory", "link" or "other"."""

    type: str
    size: int
    mode: int
    uid: int
    gid: int
    inode: int
    modified_ns: int


_MODES = {"r": "r", "r+": "rw", "w": "wct", "w+": "rwct", "x": "wx", "x+": "rwx", "a": "wc", "a+": "rwc"}


def _how(mode):
    if "t" in mode or "b" not in mode:
        raise ValueError(f"mode {mode!r}: files of a volume are binary; add 'b', or wrap the file in io.TextIOWrapper")
    try:
        return _MODES[mode.replace("b", "", 1)]
    except KeyError:
        raise ValueError(f"invalid mode: {mode!r}") from None


def _bytes_of(buffer):
    """A view of plain bytes on any contiguous buffer, without a copy."""
    view = memoryview(buffer)
    if view.nbytes == 0:
        return memoryview(b"")
    return view if view.format == "B" and view.ndim == 1 else view.cast("B")


class File(io.RawIOBase):
    """An open file of a volume, made by ``Volume.open``. Threads may share it for ``*_at``; the position is one for all."""

    def __init__(self, native, name, mode):
        super().__init__()
        self._native = native
        self._how = _how(mode)
        self._appends = mode.startswith("a")
        self._position = native.size() if self._appends else 0
        self.name = name
        self.mode = mode

    def __repr__(self):
        return f"<egeria.File {self.name!r} mode={self.mode!r}{' closed' if self.closed else ''}>"

    def __reduce_ex__(self, protocol):
        raise TypeError("an open file of a volume cannot be pickled; open it again in the other process")

    def close(self):
        if not self.closed:
            self._native.close()
            super().close()

    def readable(self):
        self._check()
        return "r" in self._how

    def writable(self):
        self._check()
        return "w" in self._how

    def seekable(self):
        self._check()
        return True

    def _check(self):
        if self.closed:
            raise ValueError("I/O operation on closed file")

    def tell(self):
        self._check()
        return self._position

    def seek(self, offset, whence=os.SEEK_SET):
        self._check()
        if whence == os.SEEK_CUR:
            offset += self._position
        elif whence == os.SEEK_END:
            offset += self._native.size()
        elif whence != os.SEEK_SET:
            raise ValueError(f"invalid whence: {whence}")
        if offset < 0:
            raise ValueError(f"negative seek position {offset}")
        self._position = offset
        return offset

    def readinto_at(self, buffer, offset):
        """Read from ``offset`` straight into a writable, contiguous buffer; returns how many bytes."""
        if memoryview(buffer).nbytes == 0:
            return 0
        return self._native.readinto_at(_bytes_of(buffer), offset)

    def read_at(self, size, offset):
        """``size`` bytes from ``offset``, fewer at the end of file."""
        return self._native.read_at(size, offset)

    def write_at(self, buffer, offset):
        """Write all of a contiguous buffer; durable when it returns."""
        return self._native.write_at(_bytes_of(buffer), offset)

    def readinto(self, buffer):
        done = self.readinto_at(buffer, self._position)
        self._position += done
        return done

    def read(self, size=-1):
        if size is None or size < 0:
            size = max(self._native.size() - self._position, 0)
        data = self._native.read_at(size, self._position)
        self._position += len(data)
        return data

    def readall(self):
        return self.read()

    def write(self, buffer):
        buffer = _bytes_of(buffer)
        if not self._appends:
            self._position += (done := self._native.write_at(buffer, self._position))
            return done
        at, done = self._native.append(buffer)
        self._position = at + done
        return done

    def truncate(self, size=None):
        size = self._position if size is None else size
        self._native.truncate(size)
        return size

    def flush(self):
        self._check()

    def sync(self):
        """What was written is durable already: this only finds out that the file can be used."""
        self._native.sync()

    def stat(self):
        return Status(*self._native.stat())

    def map(self, length=0, *, offset=0, writable=False):
        """A live view of the file, as ``mmap.mmap``; ``length`` 0 is up to the end. It sees every later change.

        The kernel maps the file through a mount of the volume (``egeria mount``). Until the view is closed, the file is used
        through the kernel by all: calls of open files raise ``OSError`` with ``errno.EBUSY``.
        """
        descriptor = self._native.through_mount()
        try:
            access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
            return mmap.mmap(descriptor, length, access=access, offset=offset)
        finally:
            os.close(descriptor)

    def where(self):
        """Which node holds which part of the file."""
        return [Part(*part) for part in self._native.locate()]


class Volume:
    """A volume, attached by the path of any of its pools. Pickled, it is attached anew where it is unpickled."""

    def __init__(self, pool, *, read_only=False):
        self.pool = os.fspath(pool)
        self.read_only = bool(read_only)
        self._native = _NativeVolume(self.pool, self.read_only)

    def __repr__(self):
        return f"egeria.Volume({self.pool!r}{', read_only=True' if self.read_only else ''})"

    def close(self):
        """Give the volume back. Its files are closed with it: what they are asked after that is a ``ValueError``."""
        self._native.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def __reduce__(self):
        return _attach, (self.pool, self.read_only)

    @property
    def is_attached_here(self):
        """False in a child that was forked from the process that attached it, and when it was closed."""
        return self._native.is_attached_here()

    @property
    def nodes(self):
        """The NUMA node of each pool."""
        return self._native.nodes()

    @property
    def space(self):
        return Space(*self._native.space())

    def open(self, path, mode="rb", *, permissions=0o644):
        """Open a file. Modes are those of the built-in ``open`` with "b"."""
        return File(self._native.open(path, _how(mode), permissions), os.fspath(path), mode)

    def stat(self, path, *, follow=True):
        return Status(*self._native.stat(path, follow))

    def list(self, path="/"):
        """Names in a directory and their types."""
        return self._native.list(path)

    def mkdir(self, path, permissions=0o755):
        self._native.mkdir(path, permissions)

    def rmdir(self, path):
        self._native.rmdir(path)

    def unlink(self, path):
        self._native.unlink(path)

    def rename(self, source, target):
        self._native.rename(source, target)

    def exists(self, path):
        """Whether a path leads to something; links are followed. A link to nothing does not."""
        try:
            return self._native.exists(path)
        except NotADirectoryError:
            return False

    def symlink(self, target, path):
        """Make a symbolic link at ``path`` that leads to ``target``."""
        self._native.symlink(target, path)

    def link(self, existing, path):
        """Give a file another name."""
        self._native.link(existing, path)

    def readlink(self, path):
        """Where a symbolic link leads, as it was made."""
        return self._native.readlink(path)

    def getxattr(self, path, name):
        """The value of an extended attribute. ``user.egeria.layout`` and ``user.egeria.checksum`` say how a file is stored."""
        return self._native.get_xattr(path, name)

    def listxattr(self, path):
        """The names of all extended attributes."""
        return self._native.list_xattr(path)

    def setxattr(self, path, name, value):
        """Set an extended attribute of the namespace ``user``; those of Egeria on a directory are for new files in it."""
        self._native.set_xattr(path, name, bytes(memoryview(value)))

    def removexattr(self, path, name):
        """Remove an extended attribute of the namespace ``user``."""
        self._native.remove_xattr(path, name)

    def where(self, path):
        """Which node holds which part of a file."""
        return [Part(*part) for part in self._native.locate(path)]


def _attach(pool, read_only):
    return Volume(pool, read_only=read_only)


def where(file, *, pool=None):
    """Which NUMA node holds which part of a file: an open one, or the path of one on the volume of ``pool`` (else: $EGERIA_POOL)."""
    if isinstance(file, File):
        return file.where()
    path = os.fspath(file).removeprefix("egeria://")
    with Volume(_pool(pool), read_only=True) as volume:
        return volume.where(path)


def _pool(pool):
    pool = pool or os.environ.get("EGERIA_POOL")
    if not pool:
        raise ValueError("no volume: give pool=PATH, or set EGERIA_POOL to the path of one of its pools")
    return pool
