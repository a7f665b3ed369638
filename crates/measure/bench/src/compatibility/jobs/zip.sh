# program: Info-ZIP (zip, unzip)
# kind: tools
# needs: zip unzip
# debian: zip unzip linux-libc-dev
# checks: unzip -t, extracted trees compared with the original

version() {
    unzip -v | awk 'NR == 1 { print $2 }'
}

prepare() {
    copy_tree tree
}

work() {
    cp -a "$INPUT/tree" tree
    zip -qr one.zip tree
    unzip -q one.zip -d out
    echo more >>tree/types.h
    zip -qu one.zip tree/types.h
    zip -qd one.zip tree/fs.h
}

check() {
    same "$INPUT/tree" out/tree
    unzip -tqq one.zip
    unzip -p one.zip tree/types.h | cmp - tree/types.h
    ! unzip -l one.zip tree/fs.h >/dev/null || fail "zip -d deleted nothing"
}
