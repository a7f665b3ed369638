# program: Python (shutil, zipfile, tarfile, shelve, mmap, sqlite3)
# kind: languages
# needs: /usr/bin/python3
# debian: python3 linux-libc-dev
# checks: trees that were packed and unpacked compared with the original, shelves and mappings read back

version() {
    /usr/bin/python3 --version | awk '{ print $2 }'
}

work() {
    /usr/bin/python3 - <<'PYTHON'
import pathlib, shelve, shutil, zipfile
shutil.copytree('/usr/include/linux', 'tree', symlinks=True)
with zipfile.ZipFile('a.zip', 'w', zipfile.ZIP_DEFLATED) as archive:
    for path in sorted(pathlib.Path('tree').rglob('*')):
        archive.write(path)
with zipfile.ZipFile('a.zip') as archive:
    assert archive.testzip() is None
    archive.extractall('out')
shutil.make_archive('b', 'gztar', 'tree')
shutil.unpack_archive('b.tar.gz', 'unpacked')
shutil.move('unpacked', 'moved')
with shelve.open('shelf') as shelf:
    for number in range(500):
        shelf[str(number)] = list(range(number))
PYTHON
}

check() {
    /usr/bin/python3 - <<'PYTHON'
import filecmp, mmap, os, shelve, shutil, tempfile
def same(left, right):
    found = filecmp.dircmp(left, right)
    assert not found.left_only and not found.right_only and not found.funny_files, found.report()
    _, different, errors = filecmp.cmpfiles(left, right, found.common_files, shallow=False)
    assert not different and not errors, (different, errors)
    for name in found.common_dirs:
        same(os.path.join(left, name), os.path.join(right, name))
same('tree', 'out/tree')
same('tree', 'moved')
with shelve.open('shelf') as shelf:
    assert all(shelf[str(number)] == list(range(number)) for number in range(500))
with tempfile.NamedTemporaryFile(dir='.') as file:
    file.write(b'x' * 100_000)
    file.flush()
    with mmap.mmap(file.fileno(), 0) as memory:
        memory[5:8] = b'abc'
        memory.flush()
    file.seek(4)
    assert file.read(5) == b'xabcx'
shutil.rmtree('tree')
assert not os.path.exists('tree')
PYTHON
}
