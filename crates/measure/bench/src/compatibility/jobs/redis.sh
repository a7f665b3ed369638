# program: Redis
# kind: databases
# needs: redis-server redis-cli redis-benchmark redis-check-aof redis-check-rdb
# debian: redis-server redis-tools
# checks: redis-check-aof, redis-check-rdb, the same keys after a restart
# survives: every key that was set when the client was answered (appendfsync always)

name=${name:-redis}

version() {
    $name-server --version | sed 's/.*v=\([^ ]*\).*/\1/'
}

cli() {
    $name-cli -s "$NOTES/socket" "$@"
}

start() {
    $name-server --port 0 --unixsocket "$NOTES/socket" --save '' --appendonly yes --appendfsync always \
        --enable-debug-command yes --dir "$PWD" >>"$NOTES/log" 2>&1 &
    server=$!
    await 20 cli ping
}

work() {
    start
    $name-benchmark -s "$NOTES/socket" -q -n 10000 -r 5000 -t set,get,lpush,incr,hset >/dev/null
    cli bgrewriteaof >/dev/null
    await 30 sh -c "$name-cli -s '$NOTES/socket' info persistence | grep -q 'aof_rewrite_in_progress:0'"
    cli save >/dev/null
    cli debug digest >"$NOTES/digest"
    end $server
}

check() {
    echo y | $name-check-aof --fix appendonlydir/*.manifest >/dev/null
    $name-check-rdb dump.rdb >/dev/null
    start
    cli debug digest | cmp - "$NOTES/digest"
    end $server
}

set_next() {
    [ "$(cli set "key$1" "$1")" = OK ]
}

load() {
    start
    (while sleep 1; do cli bgrewriteaof; done) >/dev/null 2>&1 &
    count_up set_next
}

survived() {
    last=$(acknowledged)
    start
    for n in $(seq "$last"); do echo "get key$n"; done | cli >"$NOTES/found"
    seq "$last" | cmp - "$NOTES/found" || fail "lost what was acknowledged"
    end $server
    echo y | $name-check-aof --fix appendonlydir/*.manifest >/dev/null
}
