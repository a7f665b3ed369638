# program: b3sum (Rust, crates.io)
# kind: tools
# needs: b3sum cargo
# debian: gcc libc6-dev cargo
# crates: b3sum
# checks: checksums by mapped files and threads are those by reads

version() {
    b3sum --version | awk '{ print $2 }'
}

prepare() {
    copy_tree tree
    head -c 60000000 /dev/urandom >tree/big
}

work() {
    cp -a "$INPUT/tree" tree
    find tree -type f -print0 | xargs -0 b3sum >sums
}

check() {
    b3sum --quiet -c sums
    find tree -type f -print0 | xargs -0 b3sum --no-mmap | cmp - sums
    (cd "$INPUT" && b3sum --quiet -c) <sums
}
