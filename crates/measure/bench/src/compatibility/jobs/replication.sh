# program: PostgreSQL, replicated
# kind: databases
# needs: pgbench psql pg_dump initdb postgres pg_basebackup pg_rewind pg_ctl pkill
# path: /usr/lib/postgresql/*/bin
# debian: postgresql procps
# volumes: 2
# checks: the standby on a second volume has the same rows; its primary killed, it is promoted, and the old primary follows
# survives: every transaction that pgbench noted as committed is on the promoted standby

version() {
    postgres --version | awk '{ print $3 }'
}

export PGUSER=u PGDATABASE=postgres PGHOST="$NOTES"

# at 1|2 COMMAND...: asks the server of the first or the second volume.
at() {
    [ "$1" = 1 ] && port=$PORT1 || port=$PORT2
    shift
    PGPORT=$port "$@"
}

ask() {
    at "$1" psql -Atc "$2"
}

# start 1|2 DIRECTORY: the server of the first or the second volume; a standby follows the other one.
start() {
    [ "$1" = 1 ] && port=$PORT1 other=$PORT2 || port=$PORT2 other=$PORT1
    postgres -D "$2" -p "$port" -k "$NOTES" -h '' -c shared_buffers=16MB -c dynamic_shared_memory_type=mmap \
        -c primary_conninfo="host=$NOTES port=$other user=u" >>"$NOTES/log$1" 2>&1 &
    eval "server$1=$!"
    await 60 ask "$1" 'select 1'
}

# Commits wait until the standby has written them to its volume.
begin() {
    initdb -D data -U u -A trust --data-checksums >>"$NOTES/log1" 2>&1 || fail "$(tail -n3 "$NOTES/log1")"
    # In the file, because the recovery of pg_rewind has to know it too.
    echo 'wal_keep_size = 128MB' >>data/postgresql.conf
    start 1 data
    at 1 pgbench -q -i -s 2 2>>"$NOTES/log1"
    at 1 pg_basebackup -D "$SECOND/data" -X stream -c fast
    touch "$SECOND/data/standby.signal"
    start 2 "$SECOND/data"
    ask 1 "alter system set synchronous_standby_names = '*'" >/dev/null
    ask 1 'select pg_reload_conf()' >/dev/null
    await 60 waits_for_standby
}

waits_for_standby() {
    [ "$(ask 1 'select sync_state from pg_stat_replication')" = sync ]
}

# end_at_once PROCESS: kills a server with all of its processes.
end_at_once() {
    pkill -KILL -P "$1" || true
    kill -KILL "$1" || true
    wait "$1" || true
}

# follows 1|2: the server has replayed all that the other one has written.
follows() {
    written=$(ask $((3 - $1)) 'select pg_current_wal_lsn()')
    [ "$(ask "$1" "select pg_last_wal_replay_lsn() >= '$written'")" = t ]
}

# Newer ones begin and end with a line that has a random word in it.
dump() {
    at "$1" pg_dump | grep -vE '^\\(un)?restrict '
}

same_rows() {
    dump 1 >"$NOTES/first.sql"
    dump 2 | cmp - "$NOTES/first.sql"
}

promote() {
    # A query may be cancelled while the standby replays; this is none.
    pg_ctl -D "$SECOND/data" -w promote >/dev/null
    # Before its next checkpoint, pg_rewind would not see the new timeline.
    ask 2 checkpoint >/dev/null
}

balances() {
    [ "$(ask "$1" 'select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history)
        and (select sum(bbalance) from pgbench_branches) = (select sum(delta) from pgbench_history)
        and (select sum(tbalance) from pgbench_tellers) = (select sum(delta) from pgbench_history)')" = t ] ||
        fail "balances do not match the history"
}

noted() {
    cat "$NOTES/$1".* | awk 'NF >= 6' | wc -l
}

# The old primary may have what the standby never got: pg_rewind takes it back.
follow() {
    pg_rewind --target-pgdata=data --source-server="host=$NOTES port=$PORT2 user=u dbname=postgres" >>"$NOTES/log1" 2>&1 ||
        fail "$(tail -n3 "$NOTES/log1")"
    touch data/standby.signal
    start 1 data
    await 60 follows 1
    same_rows
}

stop() {
    kill -INT "$@"
    wait "$@" || true
    pg_checksums -D data --check >/dev/null
    pg_checksums -D "$SECOND/data" --check >/dev/null
}

work() {
    begin
    at 1 pgbench -c 4 -j 2 -t 1000 >/dev/null 2>>"$NOTES/log1"
    await 60 follows 2
    kill -INT "$server1" "$server2"
    wait
}

check() {
    start 2 "$SECOND/data"
    start 1 data
    await 60 waits_for_standby
    await 60 follows 2
    [ "$(ask 2 'select count(*) from pgbench_history')" = 4000 ] || fail "transactions are missing"
    same_rows
    # -n: or it would empty the history.
    at 1 pgbench -n -c 4 -j 2 -T 600 --log --log-prefix="$NOTES/checked" >/dev/null 2>>"$NOTES/log1" &
    await 60 sh -c 'cat "$NOTES"/checked.* | grep -q .'
    sleep 1
    end_at_once "$server1"
    promote
    at_least "$(ask 2 'select count(*) from pgbench_history')" $((4000 + $(noted checked)))
    balances 2
    follow
    stop "$server1" "$server2"
}

load() {
    begin
    (while sleep 1; do ask 1 checkpoint; done) >/dev/null 2>&1 &
    # It notes each transaction after its commit.
    at 1 pgbench -c 4 -j 2 -T 600 --log --log-prefix="$NOTES/committed" >/dev/null 2>>"$NOTES/log1" &
    await 60 sh -c 'cat "$NOTES"/committed.* | grep -q .'
    acknowledge started
    wait
}

survived() {
    start 2 "$SECOND/data"
    promote
    at_least "$(ask 2 'select count(*) from pgbench_history')" "$(noted committed)"
    balances 2
    follow
    stop "$server1" "$server2"
}
