# program: DuckDB and Polars, several processes
# kind: data
# needs: python:duckdb python:polars python:pandas python:pyarrow
# pypi: duckdb polars pandas pyarrow
# checks: sums of the Parquet and CSV files of pandas, by two processes of each engine while more files come
# survives: every Parquet file that pandas had written and renamed, read by both engines

version() {
    "$TOOLS/python/bin/python3" -c 'import duckdb, polars; print(duckdb.__version__, polars.__version__)'
}

run() {
    cat >"$NOTES/job.py" <<'PYTHON'
import multiprocessing, os, sys
ROWS, FILES = 50_000, 12

def write(number):
    import pandas
    numbers = range(number * ROWS, (number + 1) * ROWS)
    table = pandas.DataFrame({'n': numbers, 'part': number, 'x': [f'text {n % 97}' for n in numbers]})
    # Readers look for the last name, and find a whole file.
    for ending, store in (('csv', lambda path: table.to_csv(path, index=False)), ('parquet', table.to_parquet)):
        store(f'{number:05}.{ending}.new')
        os.rename(f'{number:05}.{ending}.new', f'{number:05}.{ending}')

def sums(engine, ending):
    if engine == 'duckdb':
        import duckdb
        database = duckdb.connect()
        database.execute('set threads = 2')
        read = "'*.parquet'" if ending == 'parquet' else "read_csv('*.csv')"
        found = database.execute(f"select part, count(*), sum(n), count(distinct x) from {read} group by part").fetchall()
    else:
        import polars
        scan = polars.scan_parquet('*.parquet') if ending == 'parquet' else polars.scan_csv('*.csv')
        found = scan.group_by('part').agg(polars.len(), polars.sum('n'), polars.n_unique('x').alias('u')).collect().rows()
    return sorted(found)

def expected(part):
    first, last = part * ROWS, (part + 1) * ROWS - 1
    return (part, ROWS, (first + last) * ROWS // 2, 97)

def look(engine, ending, least):
    found = sums(engine, ending)
    parts = [row[0] for row in found]
    assert parts == list(range(len(parts))) and len(parts) >= least, (engine, ending, parts)
    assert found == [expected(part) for part in parts], (engine, ending, found)
    return len(parts)

def reader(engine, ending):
    seen = 1
    while seen < FILES:
        seen = look(engine, ending, seen)

KINDS = [(engine, ending) for engine in ('duckdb', 'polars') for ending in ('parquet', 'csv')]

def main():
    step = sys.argv[1]
    # Polars cannot be used after a fork.
    context = multiprocessing.get_context('spawn')
    if step == 'work':
        write(0)
        readers = [context.Process(target=reader, args=kind) for kind in KINDS]
        for process in readers:
            process.start()
        for number in range(1, FILES):
            write(number)
        for process in readers:
            process.join()
            assert process.exitcode == 0
    elif step == 'check':
        with context.Pool(4) as pool:
            assert pool.starmap(look, [kind + (FILES,) for kind in KINDS]) == [FILES] * 4
    elif step == 'load':
        with open(os.environ['NOTES'] + '/acknowledged', 'w', buffering=1) as log:
            number = 0
            while True:
                write(number)
                print(number, file=log)
                number += 1
    else:
        with open(os.environ['NOTES'] + '/acknowledged') as log:
            noted = log.read().count('\n')
        with context.Pool(4) as pool:
            pool.starmap(look, [kind + (noted,) for kind in KINDS])

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

load() {
    run load
}

survived() {
    run survived
}
