# program: 7-Zip
# kind: tools
# needs: 7z
# debian: p7zip-full linux-libc-dev
# checks: 7z t, extracted trees compared with the original

version() {
    7z i | awk '/^p7zip|^7-Zip/ { print $3; exit }'
}

prepare() {
    copy_tree tree
}

work() {
    7z a -bd -mx=3 one.7z "$INPUT/tree" >/dev/null
    7z x -bd -oout one.7z >/dev/null
}

check() {
    7z t -bd one.7z >/dev/null
    same "$INPUT/tree" out/tree
}
