# program: OpenSSH sftp
# kind: servers
# needs: sftp /usr/lib/openssh/sftp-server
# debian: openssh-client openssh-sftp-server linux-libc-dev
# checks: trees that were put and got compared with the original, resumed transfers, renames, links, times
# survives: a transfer goes on where it was (reput), and the file is whole

prepare() {
    copy_tree tree
    head -c 50000000 /dev/urandom >big
}

batch() {
    sftp -q -b - -D /usr/lib/openssh/sftp-server >>"$NOTES/log" 2>&1
}

work() {
    batch <<END
mkdir $PWD/served
put -Rp $INPUT/tree $PWD/served
put $INPUT/big $PWD/served/big
rename $PWD/served/big $PWD/served/moved
symlink moved $PWD/served/link
ln $PWD/served/moved $PWD/served/hard
chmod 640 $PWD/served/moved
get -Rp $PWD/served/tree $PWD/got
df $PWD/served
END
    head -c 10000000 served/moved >served/part
    echo "reput $INPUT/big $PWD/served/part" | batch
}

check() {
    diff -r "$INPUT/tree" served/tree
    diff -r "$INPUT/tree" got
    cmp "$INPUT/big" served/link
    cmp "$INPUT/big" served/part
    [ served/hard -ef served/moved ] || fail "the hard link is gone"
    [ "$(stat -c '%a' served/moved)" = 640 ] || fail "wrong mode"
    [ "$(stat -c %Y served/tree/types.h)" = "$(stat -c %Y "$INPUT/tree/types.h")" ] || fail "wrong time"
}

load() {
    (await 20 test -s big && acknowledge begun) &
    while :; do
        echo "put -p $INPUT/big $PWD/big" | batch
    done
}

survived() {
    [ "$(wc -c <big)" = 50000000 ] || echo "reput $INPUT/big $PWD/big" | batch
    cmp "$INPUT/big" big
}
