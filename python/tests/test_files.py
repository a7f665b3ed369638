"""Volumes and files without any other package but numpy."""

import contextlib
import errno
import io
import mmap
import os
import pickle
import subprocess
import tempfile
import threading

import numpy
import pytest

import egeria


@contextlib.contextmanager
def mounted(program, pool, point):
    """The volume is mounted by a process of its own."""
    if not os.path.exists("/dev/fuse"):
        pytest.skip("no /dev/fuse")
    subprocess.run([program, "mount", pool, point], check=True, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        subprocess.run([program, "umount", point], check=True, stdout=subprocess.DEVNULL)


def test_arrays_are_read_into_place(volume):
    array = numpy.arange(100_000, dtype="f8").reshape(100, 1000)
    with volume.open("/array", "w+b") as file:
        assert file.write(array) == array.nbytes
        copy = numpy.zeros_like(array)
        address = copy.ctypes.data
        assert file.readinto_at(copy, 0) == array.nbytes
        assert (copy == array).all() and copy.ctypes.data == address
        row = numpy.empty(1000)
        file.seek(5 * row.nbytes)
        assert file.readinto(row) == row.nbytes
        assert (row == array[5]).all()
        assert file.readinto_at(numpy.empty((0, 3)), 0) == 0
        for wrong, error in [(copy[:, ::2], TypeError), (array.tobytes(), BufferError), ("text", TypeError)]:
            with pytest.raises((error, BufferError)):
                file.readinto_at(wrong, 0)


def test_files_behave_like_files_of_python(volume):
    with volume.open("/file", "xb") as file:
        assert file.write(b"one\ntwo\n") == 8 and file.tell() == 8
        with pytest.raises(OSError) as refused:
            file.read(1)
        assert refused.value.errno == errno.EBADF
    with volume.open("/file", "ab") as file:
        assert file.tell() == 8
        file.write(b"three\n")
    with volume.open("/file") as file:
        assert file.readlines() == [b"one\n", b"two\n", b"three\n"]
        assert file.seek(-6, io.SEEK_END) == 8 and file.read() == b"three\n" and file.read(5) == b""
        assert file.read_at(1 << 40, 4) == b"two\nthree\n" and file.read_at(5, 1 << 40) == b""
        with pytest.raises(ValueError):
            file.seek(-1)
        with pytest.raises(OSError):
            file.truncate(1)
    with volume.open("/file", "r+b") as file:
        assert file.truncate(3) == 3 and file.read() == b"one"
    with pytest.raises(ValueError):
        file.read(1)
    with volume.open("/file") as file, io.TextIOWrapper(io.BufferedReader(file)) as text:
        assert text.read() == "one"
    for mode in ["r", "rt", "zb", "rwb", "b"]:
        with pytest.raises(ValueError):
            volume.open("/file", mode)


def test_errors_are_python_s_own(volume, pool):
    with pytest.raises(FileNotFoundError, match="/missing"):
        volume.open("/missing")
    volume.mkdir("/d")
    with pytest.raises(FileExistsError):
        volume.mkdir("/d")
    with pytest.raises(IsADirectoryError):
        volume.open("/d")
    with pytest.raises(OSError) as outside:
        volume.stat("/../etc")
    assert outside.value.errno == errno.EXDEV
    with pytest.raises(FileNotFoundError):
        egeria.Volume("/nonexistent")
    with pytest.raises(OSError) as refused:
        egeria.Volume(pool, read_only=True).open("/new", "wb")
    assert refused.value.errno == errno.EROFS
    with pytest.raises(ValueError, match="EGERIA_POOL"):
        egeria.where("/d")


def test_where_names_every_byte(volume, pool):
    assert sorted(volume.nodes) == [0, 1]
    with volume.open("/file", "wb") as file:
        file.write(b"x" * 1_000_000)
        parts = egeria.where(file)
    assert sum(part.length for part in parts) == 245 * 4096
    assert {part.node for part in parts} <= {0, 1}
    assert egeria.where("egeria:///file", pool=pool) == parts == volume.where("/file")
    assert 0 < volume.space.free < volume.space.total


def test_threads_append_whole_records(volume):
    record = 64

    def append(thread):
        for _ in range(100):
            file.write(bytes([thread]) * record)

    with volume.open("/log", "a+b") as file:
        threads = [threading.Thread(target=append, args=(thread,)) for thread in range(8)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        data = numpy.frombuffer(file.read_at(1 << 20, 0), dtype="u1").reshape(-1, record)
    assert len(data) == 800 and (data == data[:, :1]).all()
    assert numpy.bincount(data[:, 0]).tolist() == [100] * 8


def test_open_files_are_not_pickled_and_volumes_are(volume):
    with volume.open("/file", "wb") as file:
        with pytest.raises(TypeError, match="open it again"):
            pickle.dumps(file)
    again = pickle.loads(pickle.dumps(volume))
    assert again.list("/") == [("file", "file")]


def test_files_are_closed_with_their_volume(pool):
    volume = egeria.Volume(pool)
    file = volume.open("/file", "w+b")
    file.write(b"kept")
    volume.close()
    for used in [lambda: file.read_at(1, 0), lambda: file.write(b"x"), lambda: file.stat(), lambda: file.truncate(0)]:
        with pytest.raises(ValueError, match="whose volume was closed"):
            used()
    with pytest.raises(ValueError, match="the volume was closed"):
        volume.open("/file")
    volume.close()
    file.close()
    with pytest.raises(ValueError, match="closed file"):
        file.read(1)
    with egeria.Volume(pool) as again, again.open("/file") as file:
        assert file.read() == b"kept"


def test_links_and_names(volume):
    volume.open("/file", "wb").close()
    volume.symlink("file", "/soft")
    volume.link("/file", "/hard")
    assert volume.readlink("/soft") == "file"
    assert volume.stat("/hard").inode == volume.stat("/soft").inode
    assert volume.exists("/soft") and volume.exists("/") and not volume.exists("/none")
    assert not volume.exists("/file/below")
    volume.unlink("/file")
    assert not volume.exists("/soft") and volume.exists("/hard")
    with pytest.raises(FileExistsError):
        volume.symlink("x", "/hard")
    with pytest.raises(OSError) as refused:
        volume.readlink("/hard")
    assert refused.value.errno == errno.EINVAL


def test_extended_attributes(volume):
    volume.mkdir("/summed")
    volume.setxattr("/summed", "user.egeria.checksum", b"crc32c")
    volume.mkdir("/striped")
    volume.setxattr("/striped", "user.egeria.layout", b"striped")
    for directory, name in [("/summed", "user.egeria.checksum"), ("/striped", "user.egeria.layout")]:
        with volume.open(f"{directory}/file", "wb") as file:
            file.write(b"x")
        assert volume.getxattr(f"{directory}/file", name).startswith(volume.getxattr(directory, name)[:6])
    volume.setxattr("/summed/file", "user.one", bytearray(b"1"))
    assert "user.one" in volume.listxattr("/summed/file")
    volume.removexattr("/summed/file", "user.one")
    with pytest.raises(OSError) as missing:
        volume.getxattr("/summed/file", "user.one")
    assert missing.value.errno == errno.ENODATA
    with pytest.raises(OSError) as refused:
        volume.setxattr("/summed/file", "trusted.one", b"1")
    assert refused.value.errno == errno.EOPNOTSUPP
    with pytest.raises(TypeError):
        volume.setxattr("/summed/file", "user.one", 5)


def test_a_map_is_live_and_needs_a_mount(volume, pool, program):
    array = numpy.arange(10_000, dtype="f8")
    with volume.open("/array", "w+b") as file:
        file.write(array)
        with pytest.raises(OSError, match="egeria mount") as refused:
            file.map()
        assert refused.value.errno == errno.ENODEV
        with tempfile.TemporaryDirectory() as point, mounted(program, pool, point):
            with file.map() as view:
                seen = numpy.frombuffer(view, dtype="f8")
                assert (seen == array).all() and not seen.flags.writeable
                with open(f"{point}/array", "r+b") as other:
                    other.write(b"\0" * 8 + b"\1" * 8)
                assert seen[0] == 0 and seen[1:2].tobytes() == b"\1" * 8
                with pytest.raises(OSError) as busy:
                    file.read_at(1, 0)
                assert busy.value.errno == errno.EBUSY
                del seen
            with file.map(8, offset=mmap.ALLOCATIONGRANULARITY, writable=True) as view:
                view[:] = b"\2" * 8
                view.flush()
            with open(f"{point}/array", "rb") as other:
                other.seek(mmap.ALLOCATIONGRANULARITY)
                assert other.read(8) == b"\2" * 8
        assert file.read_at(8, mmap.ALLOCATIONGRANULARITY) == b"\2" * 8


def test_one_read_is_a_view_of_one_moment(volume):
    with volume.open("/array", "w+b") as file:
        file.write(numpy.arange(1000))
        data = file.read_at(8000, 0)
        seen = numpy.frombuffer(data, dtype="i8")
        assert seen.ctypes.data == numpy.frombuffer(data, dtype="u1").ctypes.data
        file.write_at(numpy.zeros(1000, dtype="i8"), 0)
        assert (seen == numpy.arange(1000)).all()
