# program: BusyBox (static)
# kind: languages
# needs: /bin/busybox
# debian: busybox-static linux-libc-dev
# checks: trees that its cp, tar, cpio and gzip made compared with the original
# note: It is linked statically, so it uses the mount

version() {
    busybox | awk 'NR == 1 { print $2 }'
}

prepare() {
    copy_tree tree
}

work() {
    export INPUT
    # Everything in it is busybox's own.
    busybox sh -euc '
        for tool in cp tar gzip gunzip cpio find sed sort xargs mkdir dd; do
            eval "$tool() { /bin/busybox $tool \"\$@\"; }"
        done
        cp -a "$INPUT/tree" tree
        tar czf one.tar.gz tree
        mkdir out again
        tar xzf one.tar.gz -C out
        (cd tree && find . | cpio -o -H newc 2>/dev/null) >one.cpio
        (cd again && cpio -id 2>/dev/null <../one.cpio)
        sed -i s/define/DEFINE/ out/tree/types.h
        dd if=/dev/zero of=zeros bs=64k count=100 2>/dev/null
        find tree -type f | sort | xargs /bin/busybox md5sum >sums'
}

check() {
    same "$INPUT/tree" tree
    same "$INPUT/tree" again
    sed s/define/DEFINE/ tree/types.h | cmp - out/tree/types.h
    md5sum --quiet -c sums
    [ "$(wc -c <zeros)" = 6553600 ] || fail "wrong size"
}
