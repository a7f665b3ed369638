# program: Berkeley DB
# kind: databases
# needs: db5.3_load db5.3_verify db5.3_dump db5.3_stat
# debian: db5.3-util
# checks: db_verify, a dump that is loaded and dumped again is the same; trees and hashes

work() {
    awk 'BEGIN { for (n = 1; n <= 30000; n++) printf "key%08d\nvalue %d of %d\n", n, n * 7919, n % 100 }' >pairs
    for kind in btree hash; do
        db5.3_load -T -t $kind -f pairs $kind.db
        db5.3_dump -p $kind.db >$kind.dump
        db5.3_load -f $kind.dump $kind-again.db
    done
}

check() {
    for kind in btree hash; do
        db5.3_verify $kind.db
        db5.3_verify $kind-again.db
        db5.3_dump -p $kind-again.db | grep '^ key' | sort >"$NOTES/again"
        grep '^key' pairs | sed 's/^/ /' | cmp - "$NOTES/again"
        db5.3_stat -d $kind.db >/dev/null
    done
}
