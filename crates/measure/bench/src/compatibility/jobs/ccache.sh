# program: ccache
# kind: builds
# needs: ccache cc
# debian: ccache gcc libc6-dev
# checks: objects from the cache are those of the compiler; all hits in the second build
# survives: objects from the cache are those of the compiler

version() {
    ccache --version | awk 'NR == 1 { print $3 }'
}

prepare() {
    for n in $(seq 40); do
        printf '#include <stdio.h>\nint f%s(int x) { return printf("%%d", x + %s); }\n' "$n" "$n" >"f$n.c"
        cc -c -o "f$n.o" "f$n.c"
    done
}

build() {
    export CCACHE_DIR="$PWD/cache" CCACHE_NOHASHDIR=1
    for n in $(seq 40); do
        ccache cc -c -o "f$n.o" "f$n.c"
    done
}

compare() {
    for n in $(seq 40); do
        cmp "f$n.o" "$INPUT/f$n.o"
    done
}

work() {
    cp "$INPUT"/*.c .
    build
}

check() {
    compare
    rm ./*.o
    ccache -z >/dev/null
    build
    compare
    [ "$(ccache --print-stats | awk '$1 == "direct_cache_hit" || $1 == "preprocessed_cache_hit" { n += $2 } END { print n }')" = 40 ] ||
        fail "objects were not in the cache"
}

load() {
    cp "$INPUT"/*.c .
    while :; do
        rm -rf cache/[0-9a-f]
        build
        acknowledge built
    done
}

survived() {
    rm -f ./*.o
    build
    compare
}
