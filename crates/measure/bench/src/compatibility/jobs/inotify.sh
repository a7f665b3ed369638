# program: inotifywait, tail -F
# kind: watchers
# needs: inotifywait tail
# debian: inotify-tools coreutils
# checks: each event of creations, changes, renames and removals by another process; each line of a file that is rotated
# note: tail does not use inotify on FUSE but looks once a second, so the speed is that of its pauses

version() {
    inotifywait --help | awk 'NR == 1 { print $2 }'
}

work() {
    mkdir -p watched/below
    inotifywait -q -m -r --format '%e %f' -e create,modify,close_write,move,delete,attrib watched >events &
    watcher=$!
    await 10 sh -c 'touch watched/probe; grep -q probe events'
    for n in $(seq 50); do
        echo one >"watched/below/file$n"
        echo two >>"watched/below/file$n"
        mv "watched/below/file$n" "watched/moved$n"
        chmod 600 "watched/moved$n"
        rm "watched/moved$n"
    done
    touch watched/last
    await 10 grep -q last events
    end $watcher
    : >log
    tail -n +1 -F log >followed 2>/dev/null &
    follower=$!
    for n in $(seq 1000); do
        echo "line $n" >>log
        if [ $((n % 250)) = 0 ]; then
            await 10 grep -q "^line $n\$" followed
            mv log "log.$n"
            : >log
        fi
    done
    end $follower
}

check() {
    for n in $(seq 50); do
        for event in "CREATE file$n" "CLOSE_WRITE,CLOSE file$n" "MOVED_FROM file$n" "MOVED_TO moved$n" "ATTRIB moved$n" "DELETE moved$n"; do
            grep -qx "$event" events || fail "no event $event"
        done
        [ "$(grep -cx "MODIFY file$n" events)" -ge 2 ] || fail "no event of a change of file$n"
    done
    seq 1000 | sed 's/^/line /' | cmp - followed
}
