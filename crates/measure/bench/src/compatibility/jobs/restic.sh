# program: restic (Go)
# kind: tools
# needs: restic
# debian: restic linux-libc-dev
# checks: restic check --read-data, a restored tree compared with the original, after forget and prune
# survives: every snapshot that had returned; restic check --read-data

version() {
    restic version | awk '{ print $2 }'
}

restic() {
    RESTIC_PASSWORD=x RESTIC_CACHE_DIR=$NOTES/cache command restic -q -r repository "$@"
}

work() {
    copy_tree tree
    restic init
    restic backup tree
    echo more >>tree/types.h
    restic backup tree
    restic forget --keep-last 1 --prune
    restic restore latest --target out
}

check() {
    restic check --read-data
    diff -r --no-dereference tree out/tree
}

load() {
    copy_tree tree
    restic init
    backup_next() {
        head -c 300000 /dev/urandom >tree/random
        restic backup tree
    }
    count_up backup_next
}

survived() {
    restic unlock --remove-all
    restic check --read-data
    at_least "$(restic snapshots --compact | grep -c '^[0-9a-f]\{8\} ')" "$(acknowledged)"
}
