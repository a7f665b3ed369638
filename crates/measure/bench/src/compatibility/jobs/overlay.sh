# program: Linux overlayfs (upper directory on the volume)
# kind: containers and virtual machines
# needs: mount umount
# debian: mount
# user: root
# checks: a mounted overlay shows changes of files, directories and removals
# known: overlayfs takes no FUSE file system as its upper directory that cannot make whiteouts by rename (statement 42 of semantics.md); use the driver vfs, or put the graph root elsewhere. A volume as the lower directory works

work() {
    mkdir lower upper work merged
    echo one >lower/one
    echo two >lower/two
    mount -t overlay overlay -o "lowerdir=$PWD/lower,upperdir=$PWD/upper,workdir=$PWD/work" merged
    trap 'umount "$PWD/merged"' EXIT
    rm merged/one
    echo changed >merged/two
    mkdir merged/made
    [ "$(cat merged/two)" = changed ] || fail "wrong bytes"
    [ "$(cat lower/two)" = two ] || fail "the lower file was changed"
}

check() {
    [ "$(cat upper/two)" = changed ] || fail "the change is not in the upper directory"
}
