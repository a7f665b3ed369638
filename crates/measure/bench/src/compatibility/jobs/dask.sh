# program: Dask, several processes
# kind: data
# needs: python:dask.dataframe python:distributed python:pyarrow
# pypi: dask[dataframe] distributed pandas pyarrow
# checks: Parquet and CSV of pandas read by workers through fsspec, joined and summed, compared with pandas

version() {
    "$TOOLS/python/bin/python3" -c 'import dask; print(dask.__version__)'
}

run() {
    cat >"$NOTES/job.py" <<'PYTHON'
import os, sys, warnings
import pandas
ROWS = 200_000

def table():
    numbers = pandas.Series(range(ROWS), name='n')
    return pandas.DataFrame({'n': numbers, 'key': numbers * 7919 % 1009, 'x': 'text ' + (numbers % 97).astype(str)})

def work():
    import dask.dataframe as dd
    from distributed import Client, LocalCluster
    source = table()
    os.makedirs('csv')
    for part in range(8):
        source[part::8].to_csv(f'csv/{part}.csv', index=False)
    source.to_parquet('one.parquet', row_group_size=50_000)
    with LocalCluster(n_workers=3, threads_per_worker=1, memory_limit='1GB', dashboard_address=None,
                      local_directory=os.path.abspath('spill')) as cluster, Client(cluster):
        here = 'file://' + os.getcwd()
        csv = dd.read_csv(here + '/csv/*.csv', blocksize='1MB')
        csv.to_parquet(here + '/set', write_index=False)
        one = dd.read_parquet(here + '/one.parquet', split_row_groups=True)
        few = dd.from_pandas(pandas.DataFrame({'key': range(1009), 'weight': range(1009)}), npartitions=2)
        one.merge(few, on='key', broadcast=True).to_parquet(here + '/joined', write_index=False)
        sums = dd.read_parquet(here + '/set').groupby('key').n.sum().compute()
        sums.rename('total').reset_index().to_parquet('sums.parquet')

def check():
    source = table()
    found = pandas.read_parquet('set').sort_values('n').reset_index(drop=True)
    assert found.n.equals(source.n) and found.key.equals(source.key)
    assert (found.x.astype(object) == source.x.astype(object)).all()
    joined = pandas.read_parquet('joined').sort_values('n').reset_index(drop=True)
    assert joined.n.equals(source.n) and (joined.weight == joined.key).all()
    sums = pandas.read_parquet('sums.parquet').set_index('key').total.sort_index()
    assert (sums == source.groupby('key').n.sum()).all()

if __name__ == '__main__':
    warnings.simplefilter('ignore')
    work() if sys.argv[1] == 'work' else check()
PYTHON
    "$TOOLS/python/bin/python3" "$NOTES/job.py" "$1"
}

work() {
    run work
}

check() {
    run check
}
