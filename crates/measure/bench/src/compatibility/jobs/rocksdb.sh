# program: RocksDB
# kind: databases
# needs: db_bench ldb sst_dump
# debian: rocksdb-tools
# checks: ldb checkconsistency, sst_dump --command=verify of all tables
# survives: every key that was put when ldb ended; checkconsistency

version() {
    db_bench --version | awk '{ print $3 }'
}

verify() {
    ldb --db=db checkconsistency | grep -q OK
    for table in db/*.sst; do
        sst_dump --file="$table" --command=verify >/dev/null
    done
}

work() {
    db_bench --db="$PWD/db" --benchmarks=fillrandom,overwrite,readrandom,compact --num=40000 --value_size=400 \
        --compression_type=none --seed=7 --write_buffer_size=4194304 >"$NOTES/log" 2>&1
}

check() {
    verify
    ldb --db=db dump --count_only | grep -q 'Keys in range'
}

put_next() {
    ldb --db=db --create_if_missing put "$(printf 'key%08d' "$1")" "$1"
}

load() {
    count_up put_next
}

survived() {
    # It removes tables that were being written.
    ldb --db=db put recovered 1 >/dev/null
    verify
    at_least "$(ldb --db=db scan | grep -c '^key')" "$(acknowledged)"
}
