# program: etcd
# kind: databases
# needs: etcd etcdctl
# debian: etcd-server etcd-client
# checks: all keys after a restart, the hash of a snapshot, a snapshot restored
# survives: every key that was put when the client was answered

version() {
    etcd --version | awk 'NR == 1 { print $3 }'
}

ctl() {
    ETCDCTL_API=3 etcdctl --endpoints "127.0.0.1:$PORT1" "$@"
}

start() {
    etcd --name one --data-dir data --listen-client-urls "http://127.0.0.1:$PORT1" \
        --advertise-client-urls "http://127.0.0.1:$PORT1" --listen-peer-urls "http://127.0.0.1:$PORT2" \
        --initial-advertise-peer-urls "http://127.0.0.1:$PORT2" --initial-cluster "one=http://127.0.0.1:$PORT2" \
        >>"$NOTES/log" 2>&1 &
    server=$!
    await 30 ctl endpoint health
}

keys() {
    ctl get --prefix key --keys-only | grep -c '^key'
}

work() {
    start
    for n in $(seq 100); do ctl put "key$n" "$n" >/dev/null; done
    ctl del key100 >/dev/null
    ctl defrag >/dev/null
    ctl snapshot save saved >/dev/null
    end $server
}

check() {
    start
    [ "$(keys)" = 99 ] || fail "keys are missing"
    end $server
    ctl snapshot status saved >/dev/null
    ctl snapshot restore saved --name one --data-dir restored --initial-cluster "one=http://127.0.0.1:$PORT2" \
        --initial-advertise-peer-urls "http://127.0.0.1:$PORT2" 2>>"$NOTES/log"
    mv data old && mv restored data
    start
    [ "$(keys)" = 99 ] || fail "keys are missing after a restore"
    end $server
}

load() {
    start
    put_next() {
        ctl put "key$1" "$1"
    }
    count_up put_next
}

survived() {
    start
    at_least "$(keys)" "$(acknowledged)"
    end $server
}
