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
    ! grep -qi 'drastic\|error\|failed' "$NOTES/log" || fail "$(grep -i 'drastic\|error\|failed' "$NOTES/log" | head -n2)"
}
