# program: dbench, bonnie++
# kind: load generators
# needs: dbench bonnie++
# debian: dbench bonnie++
# checks: answers that the recorded load expects; bonnie++ reads back what it wrote

version() {
    dbench --version 2>/dev/null | awk '{ print $NF; exit }'
}

work() {
    dbench -D "$PWD" -c /usr/share/dbench/client.txt -t 3 4 >"$NOTES/log" || fail "$(tail -n3 "$NOTES/log")"
    bonnie++ -d "$PWD" -s 64 -r 32 -n 4 -q >"$NOTES/bonnie" 2>>"$NOTES/log" || fail "$(tail -n3 "$NOTES/log")"
}

check() {
    grep -q 'Throughput' "$NOTES/log"
    # It takes 0, the number of the first semaphore since the machine started, for a failure, and goes on.
    wrong=$(grep -i 'drastic\|error\|failed' "$NOTES/log" | grep -v '^failed to create barrier semaphore' | head -n2 || true)
    [ -z "$wrong" ] || fail "$wrong"
}
