# program: Redis
# kind: databases
# needs: redis-server redis-cli
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

# The server is its own checker under another name.
look() {
    checker=$NOTES/$name-check-$1
    ln -sf "$(command -v $name-server)" "$checker"
    shift
    echo y | "$checker" "$@" >/dev/null
}

start() {
    $name-server --port 0 --unixsocket "$NOTES/socket" --save '' --appendonly yes --appendfsync always \
        --enable-debug-command yes --dir "$PWD" >>"$NOTES/log" 2>&1 &
    server=$!
    await 20 cli ping
}

work() {
    start
    awk 'BEGIN { for (n = 0; n < 8000; n++) {
        printf "set key%d value%d\nlpush list%d %d\nhset hash%d field%d %d\nincr count%d\n", n, n, n % 9, n, n % 50, n, n, n % 7
        if (n % 3 == 0) printf "del key%d\n", n / 3 } }' | cli >/dev/null
    cli bgrewriteaof >/dev/null
    await 30 sh -c "$name-cli -s '$NOTES/socket' info persistence | grep -q 'aof_rewrite_in_progress:0'"
    cli save >/dev/null
    cli debug digest >"$NOTES/digest"
    end $server
}

check() {
    look aof --fix appendonlydir/*.manifest
    look rdb dump.rdb
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
    look aof --fix appendonlydir/*.manifest
}
