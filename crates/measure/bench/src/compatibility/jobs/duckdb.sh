# program: DuckDB
# kind: databases
# needs: python:duckdb
# pypi: duckdb
# checks: sums of tables, a Parquet export compared with its table
# survives: every row that was committed

version() {
    "$TOOLS/python/bin/python3" -c 'import duckdb; print(duckdb.__version__)'
}

run() {
    "$TOOLS/python/bin/python3" - "$@" <<'PYTHON'
import duckdb, os, sys
step = sys.argv[1]
database = duckdb.connect('file.duckdb')
database.execute("set temp_directory = 'spill'; set threads = 2")
if step == 'work':
    database.execute("create table t as select range as n, md5(range::varchar) as x from range(500000)")
    database.execute("update t set x = reverse(x) where n % 3 = 0; delete from t where n % 7 = 0; checkpoint")
    database.execute("create index i on t(n); copy t to 'export.parquet'; copy t to 'export.csv'")
    database.execute("set memory_limit = '64MB'; create table sorted as select * from t order by x")
elif step == 'check':
    sums = database.execute("select count(*), sum(n) from t").fetchone()
    kept = [n for n in range(500000) if n % 7]
    assert sums == (len(kept), sum(kept)), sums
    for other in ("'export.parquet'", "read_csv('export.csv')", 'sorted'):
        for pair in (('t', other), (other, 't')):
            lost = database.execute(f"select count(*) from (select n, x from {pair[0]} except select n, x from {pair[1]})")
            assert lost.fetchone() == (0,), pair
elif step == 'load':
    database.execute("create table t (n integer primary key, x varchar)")
    with open(os.environ['NOTES'] + '/acknowledged', 'w', buffering=1) as log:
        n = 0
        while True:
            n += 1
            database.execute("insert into t values (?, md5(?::varchar))", [n, n])
            print(n, file=log)
            if n % 500 == 0:
                database.execute('checkpoint')
else:
    found = database.execute("select count(*) from t where x = md5(n::varchar)").fetchone()[0]
    with open(os.environ['NOTES'] + '/acknowledged') as log:
        noted = log.read().count('\n')
    assert found >= noted, f'lost: {noted} acknowledged, {found} found'
PYTHON
}

work() {
    run work
}

check() {
    run check
}

load() {
    run load
}

survived() {
    run survived
}
