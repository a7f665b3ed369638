# program: Valkey
# kind: databases
# needs: valkey-server valkey-cli valkey-benchmark valkey-check-aof valkey-check-rdb
# debian: valkey-server valkey-tools
# checks: valkey-check-aof, valkey-check-rdb, the same keys after a restart
# survives: every key that was set when the client was answered (appendfsync always)
# note: Debian has it from 13 on
# like: redis

name=valkey
