# program: LMDB
# kind: databases
# needs: python:lmdb
# pypi: lmdb
# checks: all pairs, and those of a compacted copy; by writes and by stores through a mapping (writemap)
# survives: every transaction that was committed, both ways

version() {
    "$TOOLS/python/bin/python3" -c 'import lmdb; print(".".join(map(str, lmdb.version())))'
}

run() {
    "$TOOLS/python/bin/python3" - "$@" <<'PYTHON'
import lmdb, os, sys
step = sys.argv[1]
def opened(name):
    return lmdb.open(name, map_size=1 << 30, writemap=name == 'mapped')
def value(n):
    return (b'%d ' % n) * (1 + n % 200)
def numbers(environment):
    with environment.begin() as transaction:
        found = []
        for key, data in transaction.cursor():
            n = int(key)
            assert data == value(n), n
            found.append(n)
        return found
notes = os.environ['NOTES']
for name in ('written', 'mapped'):
    if step == 'work':
        environment = opened(name)
        for begin in range(0, 20000, 100):
            with environment.begin(write=True) as transaction:
                for n in range(begin, begin + 100):
                    transaction.put(b'%08d' % n, value(n))
        with environment.begin(write=True) as transaction:
            for n in range(0, 20000, 3):
                transaction.delete(b'%08d' % n)
        environment.close()
    elif step == 'check':
        environment = opened(name)
        expected = [n for n in range(20000) if n % 3]
        assert numbers(environment) == expected
        os.mkdir(name + '-copy')
        environment.copy(name + '-copy', compact=True)
        environment.close()
        assert numbers(opened(name + '-copy')) == expected
    elif step == 'survived':
        found = numbers(opened(name))
        assert found == list(range(1, len(found) + 1))
        with open(f'{notes}/{name}') as log:
            noted = log.read().count('\n')
        assert len(found) >= noted, f'{name}: lost: {noted} acknowledged, {len(found)} found'
if step == 'load':
    both = [(opened(name), open(f'{notes}/{name}', 'w', buffering=1)) for name in ('written', 'mapped')]
    n = 0
    while True:
        n += 1
        for environment, log in both:
            with environment.begin(write=True) as transaction:
                transaction.put(b'%08d' % n, value(n))
            print(n, file=log)
        if n == 1:
            open(f'{notes}/acknowledged', 'w').write('started\n')
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
