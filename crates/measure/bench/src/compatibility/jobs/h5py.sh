# program: HDF5 (h5py)
# kind: data
# needs: python:h5py python:numpy
# pypi: h5py numpy
# checks: chunked, compressed and checksummed sets read back; a reader during writes (SWMR), file locks

version() {
    "$TOOLS/python/bin/python3" -c 'import h5py; print(h5py.version.hdf5_version)'
}

work() {
    "$TOOLS/python/bin/python3" - <<'PYTHON'
import h5py, numpy as np, subprocess, sys
data = np.arange(1_000_000).reshape(1000, 1000)
with h5py.File('one.h5', 'w') as file:
    file.create_dataset('plain', data=data)
    file.create_dataset('chunked', data=data, chunks=(100, 100), compression='gzip', compression_opts=1, fletcher32=True)
    grown = file.create_dataset('grown', shape=(0,), maxshape=(None,), dtype='i8', chunks=(4096,))
    for part in range(50):
        grown.resize((part + 1) * 1000, axis=0)
        grown[part * 1000:] = np.arange(part * 1000, (part + 1) * 1000)
    for n in range(200):
        file.create_group(f'groups/{n % 10}/{n}').attrs['n'] = n
    del file['groups/3']
for driver in ('stdio', 'core'):
    with h5py.File(f'{driver}.h5', 'w', driver=driver) as file:
        file['data'] = data
with h5py.File('shared.h5', 'w', libver='latest') as file:
    series = file.create_dataset('series', shape=(0,), maxshape=(None,), dtype='i8', chunks=(1024,))
    file.swmr_mode = True
    reader = subprocess.Popen([sys.executable, '-c', '''
import h5py, time
with h5py.File('shared.h5', 'r', swmr=True, libver='latest') as file:
    deadline = time.time() + 60
    while len(file['series']) < 20_000:
        assert time.time() < deadline
        file['series'].refresh()
        found = file['series'][:]
        assert (found == range(len(found))).all()
'''])
    for part in range(20):
        series.resize((part + 1) * 1000, axis=0)
        series[part * 1000:] = np.arange(part * 1000, (part + 1) * 1000)
        series.flush()
    assert reader.wait() == 0
PYTHON
}

check() {
    "$TOOLS/python/bin/python3" - <<'PYTHON'
import h5py, numpy as np
data = np.arange(1_000_000).reshape(1000, 1000)
with h5py.File('one.h5', 'r') as file:
    assert (file['plain'][:] == data).all() and (file['chunked'][:] == data).all()
    assert (file['grown'][:] == range(50_000)).all()
    assert '3' not in file['groups'] and file['groups/7/197'].attrs['n'] == 197
for driver in ('stdio', 'core'):
    with h5py.File(f'{driver}.h5', 'r') as file:
        assert (file['data'][:] == data).all()
with h5py.File('one.h5', 'r+') as file:
    try:
        h5py.File('one.h5', 'w')
        raise SystemExit('a second writer was let in')
    except (BlockingIOError, OSError):
        pass
PYTHON
}
