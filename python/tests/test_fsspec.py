"""`egeria://` under the packages that use fsspec."""

import fsspec
import numpy
import pytest

pandas = pytest.importorskip("pandas")
parquet = pytest.importorskip("pyarrow.parquet")
zarr = pytest.importorskip("zarr")


@pytest.fixture
def filesystem(pool):
    return fsspec.filesystem("egeria", pool=pool)


def test_names(filesystem):
    filesystem.makedirs("/a/b")
    filesystem.pipe({"/a/b/one": b"1", "/a/two": b"22"})
    assert filesystem.ls("/a", detail=False) == ["/a/b", "/a/two"]
    assert filesystem.find("egeria://a") == ["/a/b/one", "/a/two"]
    assert filesystem.glob("/a/*/o*") == ["/a/b/one"]
    assert filesystem.info("/a/two")["size"] == 2 and filesystem.isdir("/a/b") and filesystem.exists("/a/two")
    assert filesystem.cat_file("/a/two", -1) == b"2" and filesystem.cat_file("/a/two", 0, 1) == b"2"
    filesystem.cp("/a/b", "/c", recursive=True)
    filesystem.mv("/c", "/d")
    assert filesystem.cat("/d/one") == b"1" and not filesystem.exists("/c")
    with pytest.raises(FileExistsError):
        filesystem.makedirs("/a")
    with pytest.raises(FileNotFoundError):
        filesystem.ls("/nothing")
    filesystem.rm("/a", recursive=True)
    assert filesystem.ls("/", detail=False) == ["/d"]
    assert filesystem.where("/d/one")[0].offset == 0


def test_pandas_and_parquet(filesystem, pool):
    table = pandas.DataFrame({"n": numpy.arange(10_000), "text": [f"row {row}" for row in range(10_000)]})
    options = {"pool": pool}
    table.to_parquet("egeria://table.parquet", storage_options=options)
    assert pandas.read_parquet("egeria://table.parquet", storage_options=options).equals(table)
    table.to_csv("egeria://table.csv", index=False, storage_options=options)
    assert pandas.read_csv("egeria://table.csv", storage_options=options).equals(table)
    column = parquet.read_table("/table.parquet", filesystem=filesystem, columns=["n"])
    assert column["n"].to_numpy().tolist() == list(range(10_000))


def test_zarr(filesystem, pool):
    array = numpy.arange(1_000_000, dtype="i4").reshape(1000, 1000)
    made = zarr.create_array(store="egeria://array.zarr", storage_options={"pool": pool}, shape=array.shape, chunks=(100, 250), dtype="i4")
    made[:] = array
    again = zarr.open_array("egeria://array.zarr", storage_options={"pool": pool}, mode="r")
    assert (again[123:456, ::7] == array[123:456, ::7]).all()
    assert len(filesystem.find("/array.zarr")) > 40
