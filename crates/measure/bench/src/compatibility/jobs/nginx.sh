# program: nginx
# kind: servers
# needs: nginx curl
# debian: nginx curl linux-libc-dev
# checks: files by sendfile, by threads and as ranges compared with the original; WebDAV uploads; a proxy's cache

version() {
    nginx -v 2>&1 | sed 's/.*nginx.//; s/ .*//'
}

start() {
    mkdir -p "$PWD/logs" "$PWD/temporary"
    cat >"$NOTES/nginx.conf" <<END
daemon off; worker_processes 2; pid $PWD/pid; error_log $PWD/logs/error info;
events { worker_connections 64; }
http {
    access_log $PWD/logs/access; sendfile on; aio threads; client_max_body_size 100m;
    client_body_temp_path $PWD/temporary/body; proxy_temp_path $PWD/temporary/proxy;
    fastcgi_temp_path $PWD/temporary/f; uwsgi_temp_path $PWD/temporary/u; scgi_temp_path $PWD/temporary/s;
    proxy_cache_path $PWD/cache levels=1:2 keys_zone=z:1m inactive=1h;
    server { listen 127.0.0.1:$PORT1; root $PWD/html; autoindex on;
        location /up/ { dav_methods PUT DELETE MKCOL MOVE COPY; create_full_put_path on; } }
    server { listen 127.0.0.1:$PORT2;
        location / { proxy_pass http://127.0.0.1:$PORT1; proxy_cache z; proxy_cache_valid 200 1h; add_header X-Cache \$upstream_cache_status; } }
}
END
    nginx -e "$NOTES/log" -p "$PWD" -c "$NOTES/nginx.conf" >>"$NOTES/log" 2>&1 &
    server=$!
    await 20 curl -sf "http://127.0.0.1:$PORT1/"
}


prepare() {
    copy_tree tree
    head -c 20000000 /dev/urandom >tree/big
}

work() {
    mkdir html
    cp -a "$INPUT/tree" html/tree
    start
    for file in $(cd html/tree && find . -type f -size +4k | head -n 100); do
        curl -sf -o "$NOTES/one" "http://127.0.0.1:$PORT2/tree/$file"
        cmp "$NOTES/one" "$INPUT/tree/$file"
    done
    curl -sf -T "$INPUT/tree/big" "http://127.0.0.1:$PORT1/up/a/b/big"
    curl -sf -X MOVE -H "Destination: http://127.0.0.1:$PORT1/up/moved" "http://127.0.0.1:$PORT1/up/a/b/big"
    kill -QUIT $server
    wait $server || true
}

check() {
    cmp html/up/moved "$INPUT/tree/big"
    start
    curl -sf "http://127.0.0.1:$PORT1/tree/big" | cmp - "$INPUT/tree/big"
    curl -sf -r 1000000-1999999 "http://127.0.0.1:$PORT1/tree/big" >"$NOTES/range"
    tail -c +1000001 "$INPUT/tree/big" | head -c 1000000 | cmp - "$NOTES/range"
    [ "$(curl -sf -o /dev/null -D - "http://127.0.0.1:$PORT2/tree/types.h" | grep -c 'HIT\|MISS')" = 1 ]
    curl -sf -o "$NOTES/one" -D - "http://127.0.0.1:$PORT2/tree/types.h" | grep -q HIT || fail "the cache was not used"
    cmp "$NOTES/one" "$INPUT/tree/types.h"
    grep -q 'GET /tree/big' logs/access
    end $server
}
