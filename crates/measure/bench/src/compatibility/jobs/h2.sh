# program: H2 (Java)
# kind: databases
# needs: java /usr/share/java/h2.jar
# debian: default-jre-headless libh2-java
# checks: sums after a restart, a script that is exported, loaded and exported again is the same
# survives: every row whose insertion the shell had reported

sql() {
    java -Xmx256m -cp /usr/share/java/h2.jar org.h2.tools.Shell -url "jdbc:h2:file:$PWD/$1;WRITE_DELAY=0" -user sa -password '' -sql "$2"
}

work() {
    sql one "create table t(n int primary key, x varchar(100)); insert into t select x, 'text ' || x from system_range(1, 10000);
        update t set x = x || x where mod(n, 3) = 0; delete from t where mod(n, 7) = 0; create index i on t(x);
        script to '$PWD/script.sql'" >/dev/null
    sql two "runscript from '$PWD/script.sql'; script to '$PWD/again.sql'" >/dev/null
}

check() {
    sql one 'select count(*) from t' | grep -q 8572 || fail "rows are missing"
    grep INSERT -A 100000 script.sql | sort >"$NOTES/left"
    grep INSERT -A 100000 again.sql | sort | cmp - "$NOTES/left"
    sql two "select count(*) from t where x like '%1%'" >/dev/null
}

load() {
    {
        echo 'create table t(n int primary key, x varchar(100));'
        statements "insert into t values (@, 'text @');"
    } | java -Xmx256m -cp /usr/share/java/h2.jar org.h2.tools.Shell -url "jdbc:h2:file:$PWD/one;WRITE_DELAY=0" -user sa -password '' |
        grep --line-buffered 'Update count: 1' >"$NOTES/acknowledged"
}

survived() {
    at_least "$(sql one 'select count(*) from t' | sed -n 2p | tr -dc 0-9)" "$(acknowledged)"
}
