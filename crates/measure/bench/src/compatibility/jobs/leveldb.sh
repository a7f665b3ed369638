# program: LevelDB
# kind: databases
# needs: python:plyvel
# pypi: plyvel
# checks: all pairs with verified checksums, again after a repair from the tables alone
# survives: every write with sync

run() {
    "$TOOLS/python/bin/python3" - "$@" <<'PYTHON'
import os, plyvel, sys
step = sys.argv[1]
def value(n):
    return (b'%d ' % n) * (1 + n % 200)
def numbers():
    database = plyvel.DB('db', paranoid_checks=True)
    found = []
    for key, data in database.iterator(verify_checksums=True):
        n = int(key)
        assert data == value(n), n
        found.append(n)
    database.close()
    return found
expected = [n for n in range(40000) if n % 3]
if step == 'work':
    database = plyvel.DB('db', create_if_missing=True, write_buffer_size=1 << 20)
    for begin in range(0, 40000, 100):
        with database.write_batch(sync=True) as batch:
            for n in range(begin, begin + 100):
                batch.put(b'%08d' % n, value(n))
    for n in range(0, 40000, 3):
        database.delete(b'%08d' % n)
    database.compact_range()
    database.close()
elif step == 'check':
    assert numbers() == expected
    plyvel.repair_db('db')
    assert numbers() == expected
elif step == 'load':
    database = plyvel.DB('db', create_if_missing=True, write_buffer_size=1 << 20)
    with open(os.environ['NOTES'] + '/acknowledged', 'w', buffering=1) as log:
        n = 0
        while True:
            n += 1
            database.put(b'%08d' % n, value(n), sync=True)
            print(n, file=log)
else:
    found = numbers()
    assert found == list(range(1, len(found) + 1))
    with open(os.environ['NOTES'] + '/acknowledged') as log:
        noted = log.read().count('\n')
    assert len(found) >= noted, f'lost: {noted} acknowledged, {len(found)} found'
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
