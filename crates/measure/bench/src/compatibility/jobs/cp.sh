# program: GNU coreutils (cp, mv, ln, sort, dd, shred, split)
# kind: tools
# needs: cp mv sort dd shred split sha256sum
# debian: coreutils linux-libc-dev
# checks: trees and times compared with the original, checksums

version() {
    cp --version | awk 'NR == 1 { print $NF }'
}

prepare() {
    copy_tree tree
    seq 300000 | sort -R --random-source=/usr/include/linux/bpf.h >numbers 2>/dev/null || seq 300000 -1 1 >numbers
    head -c 30000000 /dev/urandom >big
}

work() {
    cp -a "$INPUT/tree" tree
    cp -a --sparse=always --reflink=auto tree copy
    cp -al tree linked
    mv copy moved
    install -D -m 640 "$INPUT/big" a/b/c/big
    sort -n -S 1M -T . "$INPUT/numbers" -o sorted
    split -b 1M "$INPUT/big" part.
    cat part.* >joined
    dd if="$INPUT/big" of=direct bs=1M oflag=direct conv=fsync status=none
    shred -n 1 -u part.aa
    find moved -type f -print0 | xargs -0 sha256sum >sums
}

check() {
    same "$INPUT/tree" moved
    same "$INPUT/tree" linked
    (cd "$INPUT/tree" && find . -printf '%P %T@ %m %y\n' | sort) >"$NOTES/left"
    (cd moved && find . -printf '%P %T@ %m %y\n' | sort) | cmp - "$NOTES/left"
    seq 300000 | cmp - sorted
    cmp "$INPUT/big" joined
    cmp "$INPUT/big" direct
    cmp "$INPUT/big" a/b/c/big
    sha256sum --quiet -c sums
    [ ! -e part.aa ] || fail "shred left its file"
}
