# program: GNU tar
# kind: tools
# needs: tar gzip xz
# debian: tar xz-utils linux-libc-dev
# checks: extracted trees compared with the original, tar --compare, sparse files and hard links

version() {
    tar --version | awk 'NR == 1 { print $NF }'
}

prepare() {
    copy_tree tree
    ln tree/types.h tree/hard
    ln -s types.h tree/soft
    truncate -s 100M tree/sparse
    printf end >>tree/sparse
}

work() {
    tar cSf one.tar -C "$INPUT" tree
    tar czSf one.tar.gz -C "$INPUT" tree
    mkdir out zipped
    tar xf one.tar -C out
    tar xzf one.tar.gz -C zipped
    tar rf one.tar -C out/tree fs.h
    tar --delete -f one.tar fs.h
}

check() {
    same "$INPUT/tree" out/tree
    same "$INPUT/tree" zipped/tree
    tar df one.tar -C out
    [ out/tree/hard -ef out/tree/types.h ] || fail "the hard link is gone"
    [ "$(du -k out/tree/sparse | cut -f1)" -lt 1000 ] || fail "the sparse file is full"
    xz -k one.tar && xz -t one.tar.xz && xz -dc one.tar.xz | cmp - one.tar
}
