# program: InfluxDB
# kind: databases
# needs: influxd curl
# debian: influxdb curl
# checks: counts after a restart, and of a backup that is restored under another name
# survives: every point that was written when the client was answered

version() {
    influxd version | awk '{ print $2 }'
}

start() {
    cat >"$NOTES/settings" <<END
bind-address = "127.0.0.1:$PORT2"
reporting-disabled = true
[meta]
dir = "$PWD/meta"
[data]
dir = "$PWD/data"
wal-dir = "$PWD/wal"
[http]
bind-address = "127.0.0.1:$PORT1"
log-enabled = false
END
    influxd -config "$NOTES/settings" >>"$NOTES/log" 2>&1 &
    server=$!
    await 30 curl -sf "http://127.0.0.1:$PORT1/ping"
}

query() {
    curl -sf "http://127.0.0.1:$PORT1/query?db=${2:-d}" -H 'Accept: application/csv' --data-urlencode "q=$1"
}

points() {
    query 'select count(x) from m' "$@" | awk -F, 'NR == 2 { print $4 }'
}

has_same_points() {
    [ "$(points e)" = "$(points)" ]
}

begin() {
    start
    query 'create database d' >/dev/null
}

put() {
    curl -sf "http://127.0.0.1:$PORT1/write?db=d&precision=s" --data-binary "$1"
}

work() {
    begin
    for part in $(seq 20); do
        awk -v part="$part" 'BEGIN { for (n = 0; n < 2000; n++) printf "m,host=h%d x=%d %d\n", n % 5, n, 1600000000 + part * 10000 + n }' >"$NOTES/points"
        put "@$NOTES/points"
    done
    end $server
}

check() {
    start
    [ "$(points)" = 40000 ] || fail "points are missing: $(points)"
    influxd backup -portable -host "127.0.0.1:$PORT2" backup >/dev/null 2>>"$NOTES/log"
    influxd restore -portable -host "127.0.0.1:$PORT2" -db d -newdb e backup >/dev/null 2>>"$NOTES/log"
    # The restored database answers some time later.
    await 20 has_same_points || fail "the backup has other points"
    end $server
}

put_next() {
    put "m x=$1 $((1600000000 + $1))"
}

load() {
    begin
    count_up put_next
}

survived() {
    start
    at_least "$(points)" "$(acknowledged)"
    influxd backup -portable -host "127.0.0.1:$PORT2" backup >/dev/null 2>>"$NOTES/log"
    influxd restore -portable -host "127.0.0.1:$PORT2" -db d -newdb e backup >/dev/null 2>>"$NOTES/log"
    # The restored database answers some time later.
    await 20 has_same_points || fail "the backup has other points"
    end $server
}
