"""Several processes: forked, with files open, and spawned."""

import errno
import multiprocessing
import os

import fsspec
import numpy
import pytest

import egeria


def _child(volume, file, filesystem, answers):
    refused = []
    for call in [lambda: file.read_at(1, 0), lambda: file.write_at(b"x", 0), lambda: volume.stat("/file")]:
        try:
            call()
        except OSError as error:
            refused.append((error.errno, "attach it again" in str(error)))
    file.close()
    # The file system attaches by itself.
    filesystem.pipe_file("/from-child", b"child")
    again = egeria.Volume(volume.pool)
    with again.open("/file", "r+b") as own:
        own.write_at(b"child ", 0)
    answers.put(refused)


def test_a_forked_child_gets_one_clear_error_and_loses_nothing(volume, pool):
    file = volume.open("/file", "w+b")
    file.write(b"parent")
    nameless = volume.open("/nameless", "w+b")
    nameless.write(b"kept")
    volume.unlink("/nameless")
    filesystem = fsspec.filesystem("egeria", pool=pool)
    context = multiprocessing.get_context("fork")
    answers = context.Queue()
    for _ in range(2):
        child = context.Process(target=_child, args=(volume, file, filesystem, answers))
        child.start()
        assert answers.get(timeout=60) == [(errno.ENOTCONN, True)] * 3
        child.join()
        assert child.exitcode == 0
    assert file.read_at(6, 0) == b"child " and nameless.read_at(4, 0) == b"kept"
    assert filesystem.cat_file("/from-child") == b"child"
    file.close()
    nameless.close()


def _rows(arguments):
    filesystem, path, first, count = arguments
    rows = numpy.empty((count, 256))
    with filesystem.open(path) as file:
        file.readinto_at(rows, first * rows[0].nbytes)
    with filesystem.open(f"/out/{first}", "wb") as file:
        file.write(rows.sum(axis=1))
    return os.getpid()


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_workers_share_a_volume(volume, pool, method):
    table = numpy.random.default_rng(1).random((1024, 256))
    with volume.open("/table", "wb") as file:
        file.write(table)
    volume.mkdir("/out")
    filesystem = fsspec.filesystem("egeria", pool=pool)
    work = [(filesystem, "/table", first, 64) for first in range(0, 1024, 64)]
    with multiprocessing.get_context(method).Pool(3) as workers:
        assert os.getpid() not in workers.map(_rows, work, chunksize=1)
    sums = numpy.concatenate([numpy.frombuffer(filesystem.cat_file(f"/out/{first}")) for first in range(0, 1024, 64)])
    assert (sums == table.sum(axis=1)).all()
