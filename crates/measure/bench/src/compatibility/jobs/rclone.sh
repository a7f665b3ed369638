# program: rclone (Go)
# kind: tools
# needs: rclone
# debian: rclone linux-libc-dev
# checks: rclone check --download, trees compared with the original

version() {
    rclone version | awk 'NR == 1 { print $2 }'
}

prepare() {
    copy_tree tree
}

work() {
    rclone copy "$INPUT/tree" copied
    echo more >>copied/types.h
    rclone sync --checksum "$INPUT/tree" copied
    rclone move copied moved
}

check() {
    rclone check --download "$INPUT/tree" moved 2>>"$NOTES/log"
    diff -r "$INPUT/tree" moved
}
