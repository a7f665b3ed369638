# program: nano, ed
# kind: editors and shells
# needs: nano ed script
# debian: nano ed bsdutils
# checks: edited texts and a backup

version() {
    echo "$(nano --version | awk 'NR == 1 { print $NF }'), $(ed --version | awk 'NR == 1 { print $NF }')"
}

work() {
    seq 1000 >text
    # Types a line, saves with Ctrl-S, ends with Ctrl-X.
    (sleep 0.5; printf 'typed\r\023\030'; sleep 0.5) | TERM=vt100 script -qec 'nano -I -B text' /dev/null >/dev/null
    seq 1000 >lines
    printf '%s\n' ',s/7/seven/g' '1,10d' '$a' end . w q | ed -s lines
}

check() {
    (echo typed; seq 1000) | cmp - text
    seq 1000 | cmp - text~
    (seq 11 1000 | sed 's/7/seven/g'; echo end) | cmp - lines
}
