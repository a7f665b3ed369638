# program: Samba
# kind: servers
# needs: smbd smbclient /usr/lib/x86_64-linux-gnu/samba/vfs/streams_xattr.so
# debian: samba smbclient samba-vfs-modules linux-libc-dev
# user: root
# checks: trees that were put and got compared with the original, alternate streams in extended attributes, renames, times

version() {
    smbd --version | awk '{ print $2 }'
}

start() {
    mkdir -p served
    for directory in state cache lock private pid ncalrpc; do mkdir -p "$NOTES/$directory"; done
    cat >"$NOTES/smb.conf" <<END
[global]
smb ports = $PORT1
interfaces = lo
bind interfaces only = yes
security = user
map to guest = bad user
guest account = root
state directory = $NOTES/state
cache directory = $NOTES/cache
lock directory = $NOTES/lock
private dir = $NOTES/private
pid directory = $NOTES/pid
ncalrpc dir = $NOTES/ncalrpc
log file = $NOTES/log
disable spoolss = yes
load printers = no
[served]
path = $PWD/served
guest ok = yes
read only = no
vfs objects = streams_xattr
ea support = yes
store dos attributes = yes
strict allocate = yes
case sensitive = yes
use sendfile = yes
END
    # It ends its process group with itself.
    setsid smbd --foreground --no-process-group --configfile="$NOTES/smb.conf" </dev/null >>"$NOTES/log" 2>&1 &
    server=$!
    await 20 client -c 'ls'
}

client() {
    smbclient -N -p "$PORT1" //127.0.0.1/served "$@"
}

prepare() {
    cp -a /usr/include/linux/netfilter tree
    head -c 20000000 /dev/urandom >tree/big
}

work() {
    start
    client -c "prompt off; recurse on; lcd $INPUT; mput tree; mkdir other; rename tree/big other/moved" >>"$NOTES/log" 2>&1
    echo stream >"$NOTES/stream"
    client -c "put $NOTES/stream other/moved:one; setmode other/moved +h" >>"$NOTES/log" 2>&1
    mkdir got
    client -c "prompt off; recurse on; lcd $PWD/got; mget tree other" >>"$NOTES/log" 2>&1
    end $server
}

check() {
    diff -r -x big "$INPUT/tree" served/tree
    diff -r -x big "$INPUT/tree" got/tree
    cmp "$INPUT/tree/big" got/other/moved
    start
    client -c "get other/moved:one $NOTES/again" >>"$NOTES/log" 2>&1
    cmp "$NOTES/stream" "$NOTES/again"
    client -c 'allinfo other/moved' | grep -q 'attributes:.*H' || fail "the attribute is gone"
    end $server
}
