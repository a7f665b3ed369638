# program: Apache Arrow, Parquet (pyarrow)
# kind: data
# needs: python:pyarrow
# pypi: pyarrow
# checks: Parquet with page checksums, partitioned data sets, Feather and IPC by mappings read back

version() {
    "$TOOLS/python/bin/python3" -c 'import pyarrow; print(pyarrow.__version__)'
}

work() {
    "$TOOLS/python/bin/python3" - <<'PYTHON'
import pyarrow as pa, pyarrow.parquet as pq, pyarrow.dataset as ds, pyarrow.feather as feather
table = pa.table({'n': range(200_000), 'part': [n % 7 for n in range(200_000)], 'x': [f'text {n}' for n in range(200_000)]})
pq.write_table(table, 'one.parquet', write_page_checksum=True, row_group_size=20_000)
ds.write_dataset(table, 'set', format='parquet', partitioning=['part'], existing_data_behavior='overwrite_or_ignore')
feather.write_feather(table, 'one.feather')
with pa.OSFile('one.arrow', 'wb') as sink, pa.ipc.new_file(sink, table.schema) as writer:
    writer.write_table(table)
memory = pa.create_memory_map('raw', 1 << 20)
memory.write(b'x' * (1 << 20))
memory.close()
PYTHON
}

check() {
    "$TOOLS/python/bin/python3" - <<'PYTHON'
import pyarrow as pa, pyarrow.parquet as pq, pyarrow.dataset as ds, pyarrow.feather as feather
table = pa.table({'n': range(200_000), 'part': [n % 7 for n in range(200_000)], 'x': [f'text {n}' for n in range(200_000)]})
assert pq.read_table('one.parquet', page_checksum_verification=True).equals(table)
assert pq.read_table('one.parquet', memory_map=True).equals(table)
assert feather.read_table('one.feather', memory_map=True).equals(table)
with pa.memory_map('one.arrow') as source:
    assert pa.ipc.open_file(source).read_all().equals(table)
found = ds.dataset('set', format='parquet', partitioning=['part']).to_table().sort_by('n')
assert found['n'].to_pylist() == list(range(200_000))
assert open('raw', 'rb').read() == b'x' * (1 << 20)
PYTHON
}
