# program: PostgreSQL
# kind: databases
# needs: pgbench psql pg_dump initdb postgres
# path: /usr/lib/postgresql/*/bin
# debian: postgresql
# checks: balances equal the history, dumps before and after VACUUM FULL and REINDEX are the same, pg_checksums
# survives: every transaction that pgbench noted as committed, and the balances

version() {
    postgres --version | awk '{ print $3 }'
}

settings() {
    export PGHOST="$PWD" PGPORT="$PORT1" PGUSER=u PGDATABASE=postgres
}

start() {
    settings
    postgres -D data -p "$PORT1" -k "$PWD" -h '' -c shared_buffers=16MB \
        -c dynamic_shared_memory_type=mmap >>"$NOTES/log" 2>&1 &
    server=$!
    await 60 psql -c 'select 1'
}

begin() {
    initdb -D data -U u -A trust --data-checksums >>"$NOTES/log" 2>&1 || fail "$(tail -n3 "$NOTES/log")"
    start
    pgbench -q -i -s "$1" 2>>"$NOTES/log"
}

balances() {
    [ "$(psql -Atc 'select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history)
        and (select sum(bbalance) from pgbench_branches) = (select sum(delta) from pgbench_history)
        and (select sum(tbalance) from pgbench_tellers) = (select sum(delta) from pgbench_history)')" = t ] ||
        fail "balances do not match the history"
}

# Newer ones begin and end with a line that has a random word in it.
dump() {
    pg_dump | grep -vE '^\\(un)?restrict '
}

work() {
    begin 2
    pgbench -c 4 -j 2 -t 1000 >/dev/null 2>>"$NOTES/log"
    end $server
}

check() {
    start
    [ "$(psql -Atc 'select count(*) from pgbench_history')" = 4000 ] || fail "transactions are missing"
    balances
    dump >dump.sql
    psql -qc 'vacuum full' -c 'reindex database postgres' >/dev/null
    dump | cmp - dump.sql
    end $server
    pg_checksums -D data --check >/dev/null
}

load() {
    begin 2
    (while sleep 1; do psql -qc checkpoint; done) &
    # It notes each transaction after its commit.
    pgbench -c 4 -j 2 -T 600 --log --log-prefix="$NOTES/committed" >/dev/null 2>>"$NOTES/log" &
    await 60 sh -c 'cat "$NOTES"/committed.* | grep -q .'
    acknowledge started
    wait
}

survived() {
    noted=$(cat "$NOTES"/committed.* | awk 'NF >= 6' | wc -l)
    start
    at_least "$(psql -Atc 'select count(*) from pgbench_history')" "$noted"
    balances
    end $server
    pg_checksums -D data --check >/dev/null
}
