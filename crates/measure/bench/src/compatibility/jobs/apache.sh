# program: Apache HTTP Server
# kind: servers
# needs: apache2 curl
# debian: apache2 curl linux-libc-dev
# checks: files by sendfile, by mappings and as ranges compared with the original; WebDAV uploads with locks and properties

version() {
    apache2 -v | awk 'NR == 1 { print $3 }' | cut -d/ -f2
}

start() {
    modules=/usr/lib/apache2/modules
    mkdir -p dav logs
    cat >"$NOTES/apache.conf" <<END
ServerRoot $PWD
ServerName tried
Listen 127.0.0.1:$PORT1
PidFile $PWD/pid
DefaultRuntimeDir $NOTES
ErrorLog $PWD/logs/error
LoadModule mpm_event_module $modules/mod_mpm_event.so
LoadModule authz_core_module $modules/mod_authz_core.so
LoadModule dir_module $modules/mod_dir.so
LoadModule dav_module $modules/mod_dav.so
LoadModule dav_fs_module $modules/mod_dav_fs.so
DocumentRoot $PWD/html
DavLockDB $PWD/dav/locks
EnableSendfile On
<Directory $PWD/html>
Require all granted
</Directory>
<Directory $PWD/html/mapped>
EnableSendfile Off
EnableMMAP On
</Directory>
<Directory $PWD/html/up>
Dav On
</Directory>
END
    apache2 -d "$PWD" -f "$NOTES/apache.conf" -D FOREGROUND >>"$NOTES/log" 2>&1 &
    server=$!
    await 20 curl -s "http://127.0.0.1:$PORT1/"
}

prepare() {
    copy_tree tree
    head -c 20000000 /dev/urandom >tree/big
}

work() {
    mkdir -p html/up
    cp -a "$INPUT/tree" html/tree
    cp -a "$INPUT/tree" html/mapped
    start
    for file in $(cd html/tree && find . -type f -size +4k | head -n 60); do
        for directory in tree mapped; do
            curl -sf -o "$NOTES/one" "http://127.0.0.1:$PORT1/$directory/$file"
            cmp "$NOTES/one" "$INPUT/tree/$file"
        done
    done
    curl -sf -T "$INPUT/tree/big" "http://127.0.0.1:$PORT1/up/big" >/dev/null
    curl -sf -X MKCOL "http://127.0.0.1:$PORT1/up/new/" >/dev/null
    curl -sf -X COPY -H "Destination: http://127.0.0.1:$PORT1/up/new/copied" "http://127.0.0.1:$PORT1/up/big" >/dev/null
    curl -sf -X LOCK -d '<?xml version="1.0"?><D:lockinfo xmlns:D="DAV:"><D:lockscope><D:exclusive/></D:lockscope><D:locktype><D:write/></D:locktype></D:lockinfo>' \
        "http://127.0.0.1:$PORT1/up/big" >"$NOTES/lock"
    end $server
}

check() {
    grep -q locktoken "$NOTES/lock"
    start
    cmp html/up/new/copied "$INPUT/tree/big"
    curl -sf "http://127.0.0.1:$PORT1/up/big" | cmp - "$INPUT/tree/big"
    curl -sf -r 1000000-1999999 "http://127.0.0.1:$PORT1/mapped/big" >"$NOTES/range"
    tail -c +1000001 "$INPUT/tree/big" | head -c 1000000 | cmp - "$NOTES/range"
    [ "$(curl -s -o /dev/null -w '%{http_code}' -X DELETE "http://127.0.0.1:$PORT1/up/big")" = 423 ] || fail "the lock was lost"
    end $server
}
