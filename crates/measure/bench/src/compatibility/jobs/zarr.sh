# program: Zarr
# kind: data
# needs: python:zarr python:numpy
# pypi: zarr numpy
# checks: arrays of many chunks and shards with checksums read back, from several processes

version() {
    "$TOOLS/python/bin/python3" -c 'import zarr; print(zarr.__version__)'
}

run() {
    cat >"$NOTES/job.py" <<'PYTHON'
import multiprocessing, sys, numpy as np, zarr
data = np.arange(1_000_000, dtype='i8').reshape(1000, 1000)
def fill(part):
    array = zarr.open_array('shared.zarr', mode='r+')
    array[part * 100:(part + 1) * 100] = data[part * 100:(part + 1) * 100]
def main():
    if sys.argv[1] == 'work':
        group = zarr.open_group('one.zarr', mode='w')
        group.create_array('chunked', data=data, chunks=(50, 50))
        group.create_array('sharded', data=data, chunks=(20, 20), shards=(200, 200))
        group['chunked'].attrs['unit'] = 'm'
        zarr.create_array('shared.zarr', shape=(1000, 1000), chunks=(100, 100), dtype='i8')
        with multiprocessing.Pool(4) as pool:
            pool.map(fill, range(10))
        with zarr.storage.ZipStore('packed.zip', mode='w') as store:
            zarr.create_array(store, data=data, chunks=(250, 250))
    else:
        group = zarr.open_group('one.zarr', mode='r')
        assert (group['chunked'][:] == data).all() and (group['sharded'][:] == data).all()
        assert group['chunked'].attrs['unit'] == 'm'
        assert (zarr.open_array('shared.zarr', mode='r')[:] == data).all()
        with zarr.storage.ZipStore('packed.zip', mode='r') as store:
            assert (zarr.open_array(store, mode='r')[:] == data).all()
if __name__ == '__main__':
    main()
PYTHON
    "$TOOLS/python/bin/python3" "$NOTES/job.py" "$1"
}

work() {
    run work
}

check() {
    run check
}
