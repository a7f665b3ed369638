# Functions of all jobs. A section runs in a directory of the place that is tried: work and check in one, load and
# survived in another. INPUT is what prepare made, NOTES a directory on tmpfs, PORT1 to PORT8 are free ports. A job with
# `volumes: 2` has another directory on the second volume, SECOND.

fail() {
    echo "$*" >&2
    exit 1
}

# await SECONDS COMMAND...: until it succeeds.
await() {
    deadline=$(($(date +%s) + $1))
    shift
    until "$@" >/dev/null 2>&1; do
        [ "$(date +%s)" -lt "$deadline" ] || fail "gave up waiting for: $*"
        sleep 0.1
    done
}

# end PROCESS: asks it to end, and waits until it did.
end() {
    kill "$1"
    wait "$1" || true
}

# A load notes what cannot be lost any more.
acknowledge() {
    echo "$1" >>"$NOTES/acknowledged"
}

# The number of things noted; a line that was cut off does not count.
acknowledged() {
    wc -l <"$NOTES/acknowledged"
}

# at_least FOUND ACKNOWLEDGED: nothing is missing.
at_least() {
    [ "$1" -ge "$2" ] || fail "lost: $2 acknowledged, $1 found"
}

# count_up COMMAND...: runs it with 1, 2, 3, ... until it fails, and notes each that succeeded.
count_up() {
    n=0
    while "$@" $((n + 1)) >/dev/null 2>&1; do
        n=$((n + 1))
        acknowledge $n
    done
}

# same LEFT RIGHT: trees without a difference.
same() {
    diff -r --no-dereference "$1" "$2"
}

# A tree to work on: headers, some thousand small files.
copy_tree() {
    cp -a /usr/include/linux "$1"
}

# statements TEXT: endless lines of it, with 1, 2, 3, ... in place of each @.
statements() {
    awk -v text="$1" 'BEGIN { for (n = 1; ; n++) { line = text; gsub(/@/, n, line); print line; fflush() } }'
}
