# program: fio
# kind: load generators
# needs: fio
# debian: fio
# checks: fio's own verification of random writes by calls, mappings, native AIO, vectors, several jobs, and trims

version() {
    fio --version | sed 's/fio-//'
}

work() {
    for engine in psync mmap libaio pvsync2 posixaio; do
        fio --name=$engine --ioengine=$engine --rw=randwrite --bs=512-64k --size=16m --numjobs=2 --verify=crc32c --verify_fatal=1 \
            --do_verify=1 --iodepth=8 --randseed=7 --fallocate=none --output="$NOTES/log" --end_fsync=1 || fail "$engine: $(tail -n3 "$NOTES/log")"
    done
    fio --name=shared --filename=shared --ioengine=psync --rw=randrw --bs=4k --size=8m --thread --numjobs=4 --offset_increment=8m \
        --verify=xxhash --verify_fatal=1 --direct=1 --output="$NOTES/log"
    fio --name=appended --ioengine=sync --rw=write --bs=1000 --size=4m --verify=md5 --file_append=0 --fsync=100 --output="$NOTES/log"
}

check() {
    [ "$(stat -c %s psync.0.0)" = 16777216 ] || fail "wrong size"
    fio --name=psync --ioengine=mmap --rw=randwrite --bs=512-64k --size=16m --numjobs=2 --verify=crc32c --verify_fatal=1 \
        --verify_only=1 --randseed=7 --output="$NOTES/log" || fail "$(tail -n3 "$NOTES/log")"
}
