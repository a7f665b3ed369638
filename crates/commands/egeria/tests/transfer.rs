//! `egeria send` and `egeria receive`: as the page says it, with input that is refused, and while programs work.

use crate::common;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::Command;

use common::{Sandbox, can_mount, commands_of, finish, run, shell, text};

const PAGE: &str = include_str!("../../../../docs/how-to/snapshots.md");

/// A mounted volume with files of many kinds.
fn prepared(sandbox: &Sandbox) -> (std::path::PathBuf, std::path::PathBuf) {
    let pool = sandbox.volume("v", "64M");
    let data = sandbox.directory("data");
    run(["mount", text(&pool), text(&data)]).ok();
    fs::create_dir_all(data.join("inner/empty")).unwrap();
    let content: Vec<u8> = (0..1_000_000).map(|at| (at / 77) as u8).collect();
    fs::write(data.join("file"), &content).unwrap();
    fs::write(data.join("inner/odd\n \u{fc} name"), b"odd").unwrap();
    fs::hard_link(data.join("file"), data.join("inner/again")).unwrap();
    symlink("../file", data.join("inner/link")).unwrap();
    let sparse = fs::File::create(data.join("sparse")).unwrap();
    sparse.set_len(10 << 20).unwrap();
    std::os::unix::fs::FileExt::write_all_at(&sparse, b"end", (10 << 20) - 3).unwrap();
    let only_owner = fs::Permissions::from_mode(0o4711);
    fs::set_permissions(data.join("inner"), fs::Permissions::from_mode(0o750)).unwrap();
    fs::set_permissions(data.join("file"), only_owner).unwrap();
    (pool, data)
}

/// What differs between two trees, one line each: names, data, links, owners, permissions, times.
fn differences(one: &Path, other: &Path) -> String {
    let mut compare = Command::new("rsync");
    compare.args([
        "--dry-run",
        "--itemize-changes",
        "--checksum",
        "--delete",
        "-aH",
    ]);
    compare.arg(one.join("")).arg(other.join(""));
    let output = compare.output().unwrap();
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn the_page_on_copying_works_as_it_stands() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (_, data) = prepared(&sandbox);
    sandbox.directory("backup");
    for line in commands_of(PAGE) {
        let here = line
            .replace("/srv/data", text(&data))
            .replace("/srv/copy", text(&sandbox.path("copy")))
            .replace("/backup/", &format!("{}/", text(&sandbox.path("backup"))));
        let ended = finish(shell(&here));
        assert_eq!(ended.status, 0, "{line}: {ended:?}");
    }
    for copy in ["copy", "copy2"] {
        assert_eq!(differences(&data, &sandbox.path(copy)), "", "{copy}");
    }
    let sparse = fs::metadata(sandbox.path("copy").join("sparse")).unwrap();
    assert!(sparse.blocks() < 100, "{}", sparse.blocks());
    run(["umount", text(&data)]).ok();
}

#[test]
fn a_later_stream_has_only_what_changed() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (pool, data) = prepared(&sandbox);
    let path = |name: &str| text(&sandbox.path(name)).to_owned();
    let send = |number: &str, more: &[&str]| {
        let (to, manifest) = (path(&format!("s{number}")), path(&format!("m{number}")));
        let with = [
            "send",
            text(&data),
            "--json",
            "--to",
            &to,
            "--manifest",
            &manifest,
        ];
        let sent = run(with.iter().chain(more).copied());
        assert_eq!(sent.status, 0, "{sent:?}");
        sent.json()
    };
    let first = send("1", &[]);
    assert_eq!(first["base"], serde_json::Value::Null);
    assert_eq!(first["inodes"], 7);
    run(["receive", &path("copy1"), "--from", &path("s1")]).ok();

    fs::write(data.join("new"), b"new").unwrap();
    fs::rename(data.join("file"), data.join("moved")).unwrap();
    fs::remove_file(data.join("sparse")).unwrap();
    fs::write(data.join("inner/odd\n \u{fc} name"), b"other").unwrap();
    let second = send("2", &["--since", &path("m1")]);
    assert_eq!(second["base"], first["id"]);
    // Only the small files, and the link's target.
    assert_eq!(second["data_bytes"], 15, "{second}");
    let receive = |name: &str, from: &str, more: &[&str]| {
        let with = ["receive", &path(name), "--json", "--from", &path(from)].map(str::to_owned);
        run(with.iter().map(String::as_str).chain(more.iter().copied()))
    };
    receive("x", "s2", &[]).refused(1, &["give --base"]);
    receive("x", "s2", &["--base", text(&data)]).refused(1, &["was not received from stream"]);
    let base = path("copy1");
    let received = receive("copy2", "s2", &["--base", &base]);
    assert_eq!(received.status, 0, "{received:?}");
    assert_eq!(differences(&data, &sandbox.path("copy2")), "");

    // One block of a large file.
    let moved = fs::File::options()
        .write(true)
        .open(data.join("moved"))
        .unwrap();
    std::os::unix::fs::FileExt::write_all_at(&moved, b"here", 500_000).unwrap();
    drop(moved);
    let blocks = send("b", &["--since", &path("m2")]);
    assert!(blocks["data_bytes"].as_u64() <= Some(4096 + 7), "{blocks}");
    let base = path("copy2");
    let received = receive("copyb", "sb", &["--base", &base]);
    assert_eq!(received.status, 0, "{received:?}");
    assert_eq!(differences(&data, &sandbox.path("copyb")), "");

    // Nothing changed: no data but the link's target, and the stream before was itself one of changes.
    let third = send("3", &["--since", &path("mb")]);
    assert_eq!(third["data_bytes"], "../file".len());
    let base = path("copyb");
    let received = receive("copy3", "s3", &["--base", &base]);
    assert_eq!(received.status, 0, "{received:?}");
    assert_eq!(differences(&data, &sandbox.path("copy3")), "");
    run(["umount", text(&data)]).ok();

    // A whole volume that is not mounted.
    let all = run(["send", text(&pool), "--json", "--to", &path("s4")])
        .ok()
        .json();
    assert_eq!(all["inodes"], third["inodes"]);
    run(["check", text(&pool)]).ok();
}

#[test]
fn input_that_makes_no_sense_is_one_line() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (_, data) = prepared(&sandbox);
    let path = |name: &str| text(&sandbox.path(name)).to_owned();
    run(["send", text(&data), "--json"]).refused(2, &["--json needs --to"]);
    run(["send", &path("none"), "--to", &path("s")]).refused(1, &["none"]);
    run(["send", text(&data.join("file")), "--to", &path("s")]).refused(1, &["file"]);
    let letter = sandbox.file("letter", "Dear king, this is no stream at all");
    let since = [
        "send",
        text(&data),
        "--to",
        &path("s"),
        "--since",
        text(&letter),
    ];
    run(since).refused(1, &["no manifest", "letter"]);
    assert!(!sandbox.path("s").exists());
    run(["send", text(&data), "--to", &path("s")]).ok();
    let receive = |to: &str, from: &str| run(["receive", &path(to), "--from", &path(from)]);
    receive("x", "letter").refused(1, &["this is no stream of `egeria send`"]);
    receive("x", "none").refused(1, &["none"]);
    receive("data", "s").refused(1, &["is there already"]);
    receive("no/x", "s").refused(1, &["name a directory that can be made"]);
    let whole = fs::read(sandbox.path("s")).unwrap();
    fs::write(sandbox.path("short"), &whole[..whole.len() / 2]).unwrap();
    receive("x", "short").refused(1, &["ends early"]);
    let mut damaged = whole.clone();
    damaged[whole.len() / 2] ^= 1;
    fs::write(sandbox.path("damaged"), damaged).unwrap();
    receive("x", "damaged").refused(1, &["the stream is damaged"]);
    let left: Vec<_> = fs::read_dir(&sandbox.root).unwrap().collect();
    let left = left.iter().flatten().map(|entry| entry.file_name());
    let names: Vec<String> = left
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    assert!(
        !names
            .iter()
            .any(|name| name == "x" || name.starts_with(".egeria-receive")),
        "{names:?}"
    );
    let piped = shell(&format!(
        "egeria send {} | egeria receive {}",
        text(&data),
        path("piped")
    ));
    let piped = finish(piped);
    assert_eq!(piped.status, 0, "{piped:?}");
    assert_eq!(differences(&data, &sandbox.path("piped")), "");
    run(["umount", text(&data)]).ok();
}

/// Each row is one transaction, which has returned before the next begins.
#[test]
fn a_database_is_sent_while_it_is_written() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let pool = sandbox.volume("v", "64M");
    let data = sandbox.directory("data");
    run(["mount", text(&pool), text(&data)]).ok();
    let database = data.join("table.db");
    let sql = |path: &Path, statement: &str| {
        let output = Command::new("sqlite3")
            .arg(path)
            .arg(statement)
            .output()
            .unwrap();
        assert!(output.status.success(), "{statement}: {output:?}");
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    sql(
        &database,
        "pragma journal_mode=wal; create table t(id integer primary key, v blob);",
    );
    let insert = "insert into t(v) values (randomblob(3000)); delete from t where id % 3 = 0 and id < (select max(id) from t) - 50;\n";
    let script = sandbox.file("rows.sql", &insert.repeat(20_000));
    let mut writer = Command::new("sqlite3")
        .arg(&database)
        .stdin(fs::File::open(&script).unwrap())
        .spawn()
        .unwrap();
    let largest = |path: &Path| {
        sql(path, "select coalesce(max(id), 0) from t")
            .parse::<u64>()
            .unwrap()
    };
    let mut before = 0;
    for copy in 0..4 {
        std::thread::sleep(std::time::Duration::from_millis(100));
        let least = largest(&database);
        let (stream, copy) = (sandbox.path("s"), sandbox.path(&format!("copy{copy}")));
        run(["send", text(&data), "--to", text(&stream)]).ok();
        run(["receive", text(&copy), "--from", text(&stream)]).ok();
        let copied = copy.join("table.db");
        assert_eq!(sql(&copied, "pragma integrity_check"), "ok");
        let found = largest(&copied);
        assert!(found >= least && found >= before, "{found}, {least} before");
        before = found;
    }
    assert!(before > 0);
    writer.kill().unwrap();
    writer.wait().unwrap();
    run(["umount", text(&data)]).ok();
    run(["check", text(&pool)]).ok();
}

#[test]
fn a_killed_sender_leaves_a_volume_that_goes_on() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (pool, data) = prepared(&sandbox);
    for number in 0..300 {
        fs::write(data.join(format!("n{number}")), vec![number as u8; 50_000]).unwrap();
    }
    for time_ms in [0, 5, 20, 60] {
        // The reader takes nothing, so the sender waits in the middle.
        let mut sender = common::egeria(["send", text(&data)]);
        let mut sender = sender
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(std::time::Duration::from_millis(time_ms));
        fs::write(data.join("n1"), vec![9; 60_000]).unwrap();
        sender.kill().unwrap();
        sender.wait().unwrap();
    }
    run(["send", text(&data), "--to", text(&sandbox.path("s"))]).ok();
    run([
        "receive",
        text(&sandbox.path("copy")),
        "--from",
        text(&sandbox.path("s")),
    ])
    .ok();
    assert_eq!(differences(&data, &sandbox.path("copy")), "");
    run(["umount", text(&data)]).ok();
    run(["check", text(&pool)]).ok();
}
