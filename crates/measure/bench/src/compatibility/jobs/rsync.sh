# program: rsync
# kind: tools
# needs: rsync
# debian: rsync linux-libc-dev
# checks: trees compared with their sources, after additions, changes, removals and --link-dest
# survives: no file has another content than that of a source; the next run makes it whole

version() {
    rsync --version | awk 'NR == 1 { print $3 }'
}

prepare() {
    copy_tree tree
    cp -a tree changed
    touch -d '1 day ago' changed/types.h
    rm changed/fs.h
    echo new >changed/new.h
    echo line >>changed/bpf.h
}

work() {
    rsync -aHAX "$INPUT/tree/" synced/ 2>/dev/null || rsync -aH "$INPUT/tree/" synced/
    rsync -a --delete --checksum "$INPUT/changed/" synced/
    rsync -a --link-dest="$PWD/synced" "$INPUT/changed/" linked/
    rsync -a --inplace --no-whole-file "$INPUT/tree/" inplace/
    rsync -a --inplace --no-whole-file "$INPUT/changed/" inplace/
}

check() {
    same "$INPUT/changed" synced
    same "$INPUT/changed" linked
    [ linked/types.h -ef synced/types.h ] || fail "--link-dest made no link"
    [ -z "$(rsync -ain --checksum --delete "$INPUT/changed/" synced/)" ] || fail "rsync sees a difference"
    cmp "$INPUT/changed/bpf.h" inplace/bpf.h
}

load() {
    while :; do
        rsync -a --delete "$INPUT/tree/" synced/
        acknowledge synced
        rsync -a --delete --checksum "$INPUT/changed/" synced/
        rm -rf synced/netfilter
    done
}

survived() {
    cd synced
    find . -type f ! -name '.*' | while read -r file; do
        cmp -s "$file" "$INPUT/tree/$file" || cmp -s "$file" "$INPUT/changed/$file" || fail "$file is of no source"
    done
    cd ..
    rsync -a --delete "$INPUT/tree/" synced/
    same "$INPUT/tree" synced
}
