# program: Polars (Rust)
# kind: data
# needs: python:polars
# pypi: polars
# checks: sums of Parquet, CSV, IPC and NDJSON that were written and scanned, also by streaming

version() {
    "$TOOLS/python/bin/python3" -c 'import polars; print(polars.__version__)'
}

work() {
    "$TOOLS/python/bin/python3" - <<'PYTHON'
import polars as pl
table = pl.DataFrame({'n': range(300_000)}).with_columns(part=pl.col('n') % 5, x=pl.format('text {}', 'n'))
table.write_parquet('one.parquet')
table.write_csv('one.csv')
table.write_ipc('one.arrow')
table.write_ndjson('one.ndjson')
pl.scan_csv('one.csv').filter(pl.col('part') > 1).sink_parquet('sunk.parquet')
PYTHON
}

check() {
    "$TOOLS/python/bin/python3" - <<'PYTHON'
import polars as pl
table = pl.DataFrame({'n': range(300_000)}).with_columns(part=pl.col('n') % 5, x=pl.format('text {}', 'n'))
for found in (pl.read_parquet('one.parquet'), pl.read_csv('one.csv'), pl.read_ipc('one.arrow'), pl.read_ndjson('one.ndjson')):
    assert found.equals(table)
assert pl.scan_parquet('sunk.parquet').collect().sort('n').equals(table.filter(pl.col('part') > 1))
PYTHON
}
