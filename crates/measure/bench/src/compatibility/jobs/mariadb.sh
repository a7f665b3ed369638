# program: MariaDB
# kind: databases
# needs: mariadbd mariadb mariadb-install-db mariadb-check mariadb-dump
# debian: mariadb-server
# checks: mariadb-check of all tables, dumps before and after OPTIMIZE are the same
# survives: every row that was inserted when the client was answered

version() {
    mariadbd --version | awk '{ print $3 }' | cut -d- -f1
}

sql() {
    mariadb --no-defaults -S "$NOTES/sql" -u root "$@"
}

start() {
    mariadbd --no-defaults --datadir="$PWD/data" --socket="$NOTES/sql" --pid-file="$NOTES/pid" --skip-networking \
        --innodb-buffer-pool-size=64M --innodb-flush-log-at-trx-commit=1 >>"$NOTES/log" 2>&1 &
    server=$!
    await 60 sql -e 'select 1'
}

begin() {
    mariadb-install-db --no-defaults --datadir="$PWD/data" --auth-root-authentication-method=normal --skip-test-db \
        >>"$NOTES/log" 2>&1 || fail "$(tail -n3 "$NOTES/log")"
    start
    sql -e 'create database d; create table d.t (n int primary key, x varchar(255), key (x)) engine=innodb;
        create table d.a (n int primary key, x varchar(255)) engine=aria'
}

work() {
    begin
    sql d -e "insert into t select seq, concat(sha2(seq, 512), seq) from seq_1_to_20000; insert into a select * from t;
        update t set x = reverse(x) where n % 3 = 0; delete from t where n % 7 = 0; alter table t add y int default 1"
    statements 'insert into t values (20000 + @, md5(@), @);' | head -n 1000 | sql d
    end $server
}

check() {
    start
    [ "$(sql -N d -e 'select count(*), sum(y) from t where n > 20000')" = "1000	500500" ] || fail "rows are missing"
    mariadb-check --no-defaults -S "$NOTES/sql" -u root --all-databases --silent
    mariadb-dump --no-defaults -S "$NOTES/sql" -u root --skip-dump-date d >"$NOTES/before"
    sql d -e 'optimize table t, a' >/dev/null
    mariadb-dump --no-defaults -S "$NOTES/sql" -u root --skip-dump-date d | cmp - "$NOTES/before"
    end $server
}

load() {
    begin
    statements 'insert into t values (@, md5(@)); select @;' | sql -N --unbuffered d >"$NOTES/acknowledged"
}

survived() {
    start
    at_least "$(sql -N d -e 'select count(*) from t')" "$(acknowledged)"
    mariadb-check --no-defaults -S "$NOTES/sql" -u root --all-databases --silent
    end $server
}
