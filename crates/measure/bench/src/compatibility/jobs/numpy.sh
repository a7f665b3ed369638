# program: NumPy (memmap, npz), pandas
# kind: data
# needs: python:numpy python:pandas
# pypi: numpy pandas
# checks: arrays and tables read back, by mappings, from two processes

version() {
    "$TOOLS/python/bin/python3" -c 'import numpy, pandas; print(numpy.__version__ + ", " + pandas.__version__)'
}

work() {
    "$TOOLS/python/bin/python3" - <<'PYTHON'
import numpy as np, os, pandas as pd
a = np.memmap('mapped', dtype=np.int64, mode='w+', shape=(2000, 1000))
a[:] = np.arange(2_000_000).reshape(2000, 1000)
a[::2] *= 3
a.flush()
if os.fork() == 0:
    b = np.memmap('mapped', dtype=np.int64, mode='r+', shape=(2000, 1000))
    b[1] = -1
    b.flush()
    os._exit(0)
os.wait()
assert (a[1] == -1).all()
np.save('one.npy', a)
np.savez_compressed('many.npz', a=a, b=np.arange(10.0))
grown = np.lib.format.open_memmap('grown.npy', mode='w+', dtype='f8', shape=(500_000,))
grown[:] = np.sqrt(np.arange(500_000))
grown.flush()
table = pd.DataFrame({'n': range(50_000), 'x': [f'text {n}' for n in range(50_000)], 'y': np.sqrt(np.arange(50_000))})
table.to_csv('table.csv', index=False)
table.to_pickle('table.pickle.gz')
table.to_json('table.json', orient='records', lines=True)
with open('appended.csv', 'w') as file:
    for begin in range(0, 50_000, 10_000):
        table[begin:begin + 10_000].to_csv(file, index=False, header=begin == 0)
PYTHON
}

check() {
    cmp table.csv appended.csv
    "$TOOLS/python/bin/python3" - <<'PYTHON'
import numpy as np, pandas as pd
expected = np.arange(2_000_000).reshape(2000, 1000)
expected[::2] *= 3
expected[1] = -1
for found in (np.memmap('mapped', dtype=np.int64, mode='r', shape=(2000, 1000)), np.load('one.npy', mmap_mode='r'), np.load('many.npz')['a']):
    assert (found == expected).all()
assert (np.load('grown.npy') == np.sqrt(np.arange(500_000))).all()
tables = [pd.read_csv('table.csv'), pd.read_pickle('table.pickle.gz'), pd.read_json('table.json', orient='records', lines=True)]
for table in tables:
    assert list(table.n) == list(range(50_000)) and table.x[777] == 'text 777'
    assert np.allclose(table.y, np.sqrt(np.arange(50_000)))
PYTHON
}
