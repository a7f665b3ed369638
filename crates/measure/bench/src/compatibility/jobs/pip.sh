# program: pip, venv
# kind: builds
# needs: /usr/bin/python3 python:wheel python:lmdb
# debian: python3 python3-venv
# pypi: wheel lmdb
# checks: pip check, the checksums that wheels record, a native module that is loaded from there

version() {
    "$TOOLS/python/bin/python3" -m pip --version | awk '{ print $2 }'
}

prepare() {
    # Wheels of what is installed already, so that installing needs no network.
    cat >pack.py <<'PYTHON'
import importlib.metadata, os, zipfile
for name in ('wheel', 'lmdb', 'packaging'):
    try:
        found = importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        continue
    tags = [line.split()[1] for line in found.read_text('WHEEL').splitlines() if line.startswith('Tag:')]
    with zipfile.ZipFile(f'{name}-{found.version}-{tags[0]}.whl', 'w') as wheel:
        for file in found.files:
            kept = not str(file).startswith('..') and '__pycache__' not in file.parts
            if kept and file.name not in ('INSTALLER', 'REQUESTED', 'direct_url.json'):
                wheel.write(found.locate_file(file), str(file))
PYTHON
    "$TOOLS/python/bin/python3" pack.py
}

work() {
    /usr/bin/python3 -m venv venv
    venv/bin/pip install --no-index --no-cache-dir -q "$INPUT"/*.whl
}

check() {
    venv/bin/pip check >/dev/null
    venv/bin/python3 - <<'PYTHON'
import base64, hashlib, importlib.metadata, lmdb
for found in importlib.metadata.distributions():
    for file in found.files or []:
        if file.hash and '__pycache__' not in file.parts and '..' not in file.parts:
            digest = hashlib.new(file.hash.mode, file.locate().read_bytes()).digest()
            assert base64.urlsafe_b64encode(digest).rstrip(b'=').decode() == file.hash.value, file
lmdb.open('db').close()
PYTHON
    venv/bin/pip uninstall -q -y lmdb
    ! venv/bin/python3 -c 'import lmdb' 2>/dev/null || fail "pip uninstall left the module"
}
