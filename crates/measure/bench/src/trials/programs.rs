//! The real programs of `egeria-lab trials`: ten that a side makes faster, ten to which it makes no difference, five that it
//! makes slower.
//!
//! - Faster on an emulated machine: the data is on the second node, and policy `rl` brings the thread there.
//! - Faster on this host: the data is not cached, and the side `warm` has it in the page cache.
//! - No difference, by construction: both sides are the same.
//! - No difference, measured: a steward where nothing is to be placed.
//! - Slower: a steward made bad on purpose, which looks at the memory of the program as often as it can.

use serde::Serialize;

/// What a side does to a program.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    Gain,
    None,
    Loss,
}

/// A program with the sides that it is tried with.
#[derive(Clone, Copy, Debug)]
pub struct RealProgram {
    pub name: &'static str,
    pub kind: Kind,
    pub sides: Sides,
    pub software: &'static Software,
    /// Run by `sh` in the directory of the program; `{}` is its data.
    pub command: &'static str,
    /// One of the few of a short run.
    pub is_short: bool,
}

/// What is compared.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sides {
    /// A volume on an emulated machine without and with `rl`, with the data on the second node.
    OtherNode,
    /// Data that is not cached, without and with `warm`.
    Cold,
    /// Nothing and nothing.
    Same,
    /// A volume on an emulated machine, twice.
    SameVolume,
    /// Nothing, and a steward that has nothing to place.
    Idle,
    /// Nothing, and a steward that costs.
    Costly,
}

/// What is installed for a program, and how its data is made.
#[derive(Debug)]
pub struct Software {
    /// Commands, and the Debian packages that have them.
    pub needs: &'static [(&'static str, &'static str)],
    /// Run by `sh` once, in an empty directory with the directory `data`.
    pub prepare: &'static str,
}

const FIO: Software = Software {
    needs: &[("fio", "fio")],
    prepare: "head -c 67108864 /dev/urandom > data/file",
};
const FIO_SMALL: Software = Software {
    needs: &[("fio", "fio")],
    prepare: "head -c 16777216 /dev/urandom > data/file",
};
const SQLITE: Software = Software {
    needs: &[("sqlite3", "sqlite3")],
    prepare: r#"sqlite3 data/table.db "create table t(id integer primary key, v blob); with recursive c(i) as (select 1 union all select i+1 from c where i < 20000) insert into t select i, randomblob(800) from c;"
cat > lookups.sql <<'END'
pragma cache_size=10;
with recursive c(i) as (select 1 union all select i+1 from c where i < 3000) select sum(length(v)) from c join t on t.id = (i * 7919) % 20000 + 1;
END
sed s/3000/60000/ lookups.sql > many.sql
cat > memory.sql <<'END'
create table t(id integer primary key, v blob);
with recursive c(i) as (select 1 union all select i+1 from c where i < 30000) insert into t select i, randomblob(400) from c;
update t set v = randomblob(400);
update t set v = randomblob(400);
update t set v = randomblob(400);
END
cp memory.sql long.sql
for turn in $(seq 20); do echo "update t set v = randomblob(400);" >> long.sql; done"#,
};
const ROCKSDB: Software = Software {
    needs: &[("db_bench", "rocksdb-tools")],
    prepare: "db_bench --db=data/db --benchmarks=fillrandom,compact --num=20000 --value_size=800 --compression_type=none > /dev/null 2>&1",
};
const PYTHON: Software = Software {
    needs: &[("python3", "python3")],
    prepare: r#"head -c 16777216 /dev/urandom > data/file
cat > reads.py <<'END'
import os, random, sys
random.seed(1)
file = os.open(sys.argv[1], os.O_RDONLY)
pages = os.fstat(file).st_size // 4096
total = 0
for _ in range(int(sys.argv[2])):
    total += os.pread(file, 4096, random.randrange(pages) * 4096)[0]
print(total)
END
cat > writes.py <<'END'
memory = bytearray(64 << 20)
for turn in range(30):
    for at in range(0, len(memory), 4096):
        memory[at] = turn
END"#,
};
/// Its server refuses root.
const POSTGRES: Software = Software {
    needs: &[("pgbench", "postgresql"), ("setpriv", "util-linux")],
    prepare: r#"cat > as_user <<'END'
PATH=$(ls -d /usr/lib/postgresql/*/bin | tail -n 1):$PATH
if [ "$(id -u)" = 0 ]; then exec setpriv --reuid 65534 --regid 65534 --clear-groups "$@"; fi
exec "$@"
END
[ "$(id -u)" != 0 ] || { chmod 755 . && chown 65534:65534 data; }
sh as_user initdb -D data/pg -U postgres --no-sync > /dev/null
cat > single <<'END'
exec sh as_user postgres --single -j -D data/pg postgres
END
cat > rows.sql <<'END'
create table t as select i as id, repeat(md5(i::text), 25) as v from generate_series(1, 20000) as i;

create unique index on t(id);

END
sh single < rows.sql > /dev/null
cat > lookups.sql <<'END'
select sum(length(v)) from generate_series(1, 9000) as i join lateral (select v from t where id = (i * 7919) % 20000 + 1 offset 0) as x on true;

END
cat > served <<'END'
sh as_user pg_ctl -D data/pg -w -s -l data/log -o "-c listen_addresses='' -k $PWD/data -c fsync=off" start
sh as_user pgbench -h "$PWD/data" -U postgres "$@" postgres 2> /dev/null
sh as_user pg_ctl -D data/pg -w -s -m fast stop
END
sh served -i -s 2 -q > /dev/null"#,
};
const REDIS: Software = Software {
    needs: &[
        ("redis-server", "redis-server"),
        ("redis-benchmark", "redis-tools"),
    ],
    prepare: r#"cat > served <<'END'
redis-server --port 0 --unixsocket "$PWD/data/socket" --save '' --dir "$PWD/data" > /dev/null &
until redis-cli -s data/socket ping > /dev/null 2>&1; do sleep 0.01; done
redis-benchmark -s data/socket "$@" > /dev/null
redis-cli -s data/socket shutdown nosave 2> /dev/null
wait
END"#,
};

const FIO_READS: &str = "fio --name=a --filename={}/file --size=16m --io_size=16m --bs=4k --rw=randread --norandommap --invalidate=0 --ioengine=psync --thread --output-format=terse";
const ROCKSDB_READS: &str = "db_bench --db={}/db --use_existing_db=1 --benchmarks=readrandom --num=20000 --reads=8000 --cache_size=0 --compression_type=none 2>&1";

const fn program(
    name: &'static str,
    (kind, sides): (Kind, Sides),
    software: &'static Software,
    command: &'static str,
) -> RealProgram {
    RealProgram {
        name,
        kind,
        sides,
        software,
        command,
        is_short: false,
    }
}

impl RealProgram {
    const fn short(self) -> RealProgram {
        RealProgram {
            is_short: true,
            ..self
        }
    }
}

const OTHER_NODE: (Kind, Sides) = (Kind::Gain, Sides::OtherNode);
const COLD: (Kind, Sides) = (Kind::Gain, Sides::Cold);
const SAME: (Kind, Sides) = (Kind::None, Sides::Same);
const SAME_VOLUME: (Kind, Sides) = (Kind::None, Sides::SameVolume);
const IDLE: (Kind, Sides) = (Kind::None, Sides::Idle);
const COSTLY: (Kind, Sides) = (Kind::Loss, Sides::Costly);

/// All of them.
pub const PROGRAMS: [RealProgram; 25] = [
    program("fio-other-node", OTHER_NODE, &FIO_SMALL, FIO_READS),
    program(
        "fio-64k-other-node",
        OTHER_NODE,
        &FIO_SMALL,
        "fio --name=a --filename={}/file --size=16m --io_size=64m --bs=64k --rw=randread --norandommap --ioengine=psync --thread --output-format=terse",
    ),
    program(
        "sqlite-other-node",
        OTHER_NODE,
        &SQLITE,
        "sqlite3 {}/table.db < lookups.sql",
    ),
    program("rocksdb-other-node", OTHER_NODE, &ROCKSDB, ROCKSDB_READS),
    program(
        "python-other-node",
        OTHER_NODE,
        &PYTHON,
        "python3 reads.py {}/file 12000",
    ),
    program(
        "fio-cold",
        COLD,
        &FIO,
        "fio --name=a --filename={}/file --size=64m --io_size=16m --bs=4k --rw=randread --norandommap --invalidate=0 --ioengine=psync --thread --output-format=terse",
    ),
    program(
        "sqlite-cold",
        COLD,
        &SQLITE,
        "sqlite3 {}/table.db < many.sql",
    ),
    program(
        "rocksdb-cold",
        COLD,
        &ROCKSDB,
        "db_bench --db={}/db --use_existing_db=1 --benchmarks=readrandom --num=20000 --reads=32000 --cache_size=0 --compression_type=none 2>&1",
    ),
    program("postgres-cold", COLD, &POSTGRES, "sh single < lookups.sql"),
    program(
        "python-cold",
        COLD,
        &PYTHON,
        "python3 reads.py {}/file 4000",
    )
    .short(),
    program(
        "fio",
        SAME,
        &FIO,
        "fio --name=a --filename={}/file --size=64m --io_size=256m --bs=4k --rw=randread --norandommap --invalidate=0 --ioengine=psync --thread --output-format=terse",
    ),
    program(
        "rocksdb",
        SAME,
        &ROCKSDB,
        "db_bench --db={}/db --use_existing_db=1 --benchmarks=readrandom --num=20000 --reads=60000 --compression_type=none 2>&1",
    ),
    program("pgbench", SAME, &POSTGRES, "sh served -S -t 300 -c 2"),
    program("redis", SAME, &REDIS, "sh served -n 6000 -t set,get -q"),
    program("sqlite", SAME, &SQLITE, "sqlite3 :memory: < memory.sql").short(),
    program("python", SAME, &PYTHON, "python3 writes.py"),
    program("fio-volume", SAME_VOLUME, &FIO_SMALL, FIO_READS),
    program(
        "sqlite-volume",
        SAME_VOLUME,
        &SQLITE,
        "sqlite3 {}/table.db < lookups.sql",
    ),
    program("python-steward", IDLE, &PYTHON, "python3 writes.py"),
    program(
        "sqlite-steward",
        IDLE,
        &SQLITE,
        // Starting a steward takes a millisecond, which in a run of 80 is more than it costs later.
        "sqlite3 :memory: < long.sql",
    ),
    program("python-watched", COSTLY, &PYTHON, "python3 writes.py").short(),
    program(
        "sqlite-watched",
        COSTLY,
        &SQLITE,
        "sqlite3 :memory: < memory.sql",
    ),
    program(
        "rocksdb-watched",
        COSTLY,
        &ROCKSDB,
        "db_bench --db=data/new --benchmarks=fillrandom --num=30000 --value_size=800 --compression_type=none 2>&1",
    ),
    program(
        "redis-watched",
        COSTLY,
        &REDIS,
        "sh served -n 10000 -r 10000 -d 2000 -t set -q",
    ),
    program(
        "fio-watched",
        COSTLY,
        &FIO,
        // Two threads: they and the steward want more CPUs than a small host has.
        "fio --name=a --filename={}/file --numjobs=2 --size=64m --io_size=2g --bs=32m --rw=read --ioengine=psync --invalidate=0 --thread --output-format=terse",
    ),
];

impl Sides {
    /// Arguments of `egeria trial`.
    pub(super) fn options(self) -> &'static [&'static str] {
        // Pages go as soon as nothing has them mapped.
        const UNCACHED: &str = "find data -type f -size +32k -exec dd if=/dev/null of={} oflag=nocache conv=notrunc,fdatasync count=0 status=none ';'";
        match self {
            Sides::OtherNode => &[
                "--volume",
                "data",
                "--machine",
                "optane-2s",
                "--dilation",
                "32",
                "--alloc",
                "node=1",
                "--window",
                "1",
                "--compare",
                "volume,volume+rl",
            ],
            Sides::SameVolume => &[
                "--volume",
                "data",
                "--machine",
                "optane-2s",
                "--dilation",
                "32",
                "--alloc",
                "node=1",
                "--compare",
                "volume,volume",
            ],
            Sides::Cold => &["--warm", "data", "--node", "0", "--before", UNCACHED],
            Sides::Same => &["--compare", "off,off"],
            Sides::Idle => &["--compare", "off,all", "--even-so"],
            Sides::Costly => &[
                "--compare",
                "off,all",
                "--even-so",
                "--window",
                "1",
                "--memory-source",
                "page-tables",
            ],
        }
    }

    /// Whether its sides are the same, so that the truth is known without measuring.
    pub(super) fn are_same(self) -> bool {
        matches!(self, Sides::Same | Sides::SameVolume)
    }

    /// The profile of the emulated machine, if it is one.
    pub(super) fn emulated(self) -> Option<&'static str> {
        matches!(self, Sides::OtherNode | Sides::SameVolume).then_some("optane-2s")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_gain_ten_do_not_and_five_lose() {
        let of = |kind| {
            PROGRAMS
                .iter()
                .filter(|program| program.kind == kind)
                .count()
        };
        assert_eq!([Kind::Gain, Kind::None, Kind::Loss].map(of), [10, 10, 5]);
        let names: std::collections::HashSet<_> =
            PROGRAMS.iter().map(|program| program.name).collect();
        assert_eq!(names.len(), PROGRAMS.len());
        let short = PROGRAMS.iter().filter(|program| program.is_short);
        let kinds: Vec<Kind> = short.map(|program| program.kind).collect();
        assert_eq!(kinds, [Kind::Gain, Kind::None, Kind::Loss]);
    }
}
