//! `egeria mount`, `umount`, `df` and `stat`, and what is wrong with mount points.

use crate::common;

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use common::{
    Background, Sandbox, anybody_can_mount, as_nobody, can_mount, damage, egeria, eventually,
    finish, is_root, kill, mounts, run, text, wait,
};
use rustix::process::Signal;
use serde_json::Value;

/// Mounts in the background; what it says.
#[track_caller]
fn mount(pool: &Path, directory: &Path) -> Value {
    run(["mount", "--json", text(pool), text(directory)])
        .ok()
        .json()
}

#[test]
fn mount_and_umount_return_when_they_are_done() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (pool, directory) = (sandbox.volume("v", "64M"), sandbox.directory("mnt"));
    for round in 0..3 {
        let document = mount(&pool, &directory);
        assert_eq!(document["directory"], text(&directory));
        fs::write(directory.join(format!("file{round}")), vec![7; 100_000]).unwrap();
        let closed = run(["umount", "--json", text(&directory)]).ok().json();
        assert_eq!(closed["closed"], true);
        assert!(
            has_ended(&document["pid"]),
            "umount came back before the mount process had ended"
        );
        run(["check", text(&pool)]).ok();
    }
    mount(&pool, &directory);
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 3);
    assert_eq!(fs::read(directory.join("file1")).unwrap(), vec![7; 100_000]);
    run(["umount", text(&directory)]).ok();
}

/// Gone, or dead and waiting for its parent to notice.
fn has_ended(pid: &Value) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.is_empty() || stat.contains(") Z ") || stat.contains(") X ")
}

#[test]
fn df_shows_the_same_mounted_and_not() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (pool, directory) = (sandbox.volume("v", "64M"), sandbox.directory("mnt"));
    let volume_of = |document: Value| document["volumes"][0].clone();
    let offline = volume_of(run(["df", "--json", text(&pool)]).ok().json());
    assert_eq!(offline["pools"].as_array().unwrap().len(), 2);
    mount(&pool, &directory);
    fs::write(directory.join("file"), vec![1; 8 << 20]).unwrap();
    let mounted = volume_of(run(["df", "--json", text(&directory)]).ok().json());
    assert_eq!(mounted["volume"], offline["volume"]);
    assert_eq!(mounted["bytes"], offline["bytes"]);
    let used = |space: &Value| space["used_bytes"].as_u64().unwrap();
    assert!(used(&mounted) >= used(&offline) + (8 << 20), "{mounted}");
    let all = run(["df", "--json"]).json();
    let listed = all["volumes"]
        .as_array()
        .unwrap()
        .iter()
        .any(|volume| volume["volume"] == offline["volume"]);
    assert!(listed, "{all}");
    run(["umount", text(&directory)]).ok();
}

#[test]
fn stat_tells_pools_from_other_files() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (pool, directory) = (sandbox.volume("v", "64M"), sandbox.directory("mnt"));
    mount(&pool, &directory);
    let file = directory.join("file");
    fs::write(&file, vec![1; 300_000]).unwrap();
    let document = run(["stat", "--json", text(&file)]).ok().json();
    assert_eq!(document["size_bytes"], 300_000);
    let held: u64 = document["nodes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|node| node["bytes"].as_u64().unwrap())
        .sum();
    assert!(held >= 300_000, "{document}");
    assert_eq!(
        run(["stat", "--json", text(&directory)]).ok().json()["kind"],
        "directory"
    );
    let fifo = directory.join("fifo");
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    assert_eq!(
        run(["stat", "--json", text(&fifo)]).ok().json()["kind"],
        "fifo"
    );
    run(["stat", text(&pool)]).refused(1, &[text(&pool), "not on a mount"]);
    run(["stat", text(&directory.join("none"))]).refused(1, &["none", "check the path"]);
    run(["umount", text(&directory)]).ok();
}

#[test]
fn a_mount_point_that_is_busy_missing_or_a_file() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (pool, directory) = (sandbox.volume("v", "64M"), sandbox.directory("mnt"));
    mount(&pool, &directory);
    run(["mount", text(&pool), text(&directory)]).refused(1, &[text(&directory), "busy"]);
    run(["mount", text(&pool), text(&sandbox.path("none"))]).refused(1, &["none"]);
    run(["mount", text(&pool), text(&pool)]).refused(1, &[text(&pool)]);
    run(["umount", text(&directory)]).ok();
    run(["umount", text(&directory)]).refused(1, &[text(&directory), "not a mount point"]);
    run(["umount", "/proc"]).refused(1, &["/proc", "not of Egeria"]);
}

#[test]
fn umount_waits_until_what_was_removed_is_given_back() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (pool, directory) = (sandbox.volume("v", "64M"), sandbox.directory("mnt"));
    let document = mount(&pool, &directory);
    let open: Vec<_> = (0..2_000)
        .map(|number| {
            let path = directory.join(number.to_string());
            let file = fs::File::create(&path).unwrap();
            file.set_len(1 << 30).unwrap();
            std::os::unix::fs::FileExt::write_all_at(&file, b"x", number << 18).unwrap();
            fs::remove_file(path).unwrap();
            (number < 200).then_some(file)
        })
        .collect();
    drop(open);
    let closed = run(["umount", "--json", text(&directory)]).ok().json();
    assert_eq!(closed["closed"], true);
    assert!(has_ended(&document["pid"]), "its process works on");
    run(["check", text(&pool)]).ok();
}

#[test]
fn a_mount_somebody_uses_stays_and_the_line_says_who() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (pool, directory) = (sandbox.volume("v", "64M"), sandbox.directory("mnt"));
    mount(&pool, &directory);
    let mut sleep = Command::new("sleep");
    let mut holder = Background::start(sleep.arg("60").current_dir(&directory));
    run(["umount", text(&directory)]).refused(1, &["busy", "sleep", &holder.id().to_string()]);
    fs::write(directory.join("still"), "here").unwrap();
    holder.end();
    run(["umount", text(&directory)]).ok();
}

#[test]
fn a_killed_mount_loses_nothing_and_is_taken_away() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (pool, directory) = (sandbox.volume("v", "64M"), sandbox.directory("mnt"));
    let pid = mount(&pool, &directory)["pid"].as_u64().unwrap() as u32;
    let name = fs::read_to_string(format!("/proc/{pid}/comm"));
    assert_eq!(name.unwrap(), "egeria\n");
    fs::write(directory.join("file"), vec![9; 1 << 20]).unwrap();
    kill(pid, Signal::KILL);
    eventually("the mount is dead", || fs::read_dir(&directory).is_err());
    run(["stat", text(&directory)]).refused(1, &["umount"]);
    run(["mount", text(&pool), text(&directory)]).refused(1, &["umount"]);
    let listed = run(["df", text(&pool)]);
    assert_eq!(listed.status, 1);
    assert!(listed.stdout.contains("(dead)"), "{}", listed.stdout);
    assert!(listed.stderr.contains("was killed") && listed.stderr.contains("egeria umount"));
    let document = run(["df", "--json", text(&pool)]).json();
    assert_eq!(document["volumes"][0]["dead_mounts"][0], text(&directory));
    run(["umount", text(&directory)]).ok();
    mount(&pool, &directory);
    assert_eq!(fs::read(directory.join("file")).unwrap(), vec![9; 1 << 20]);
    run(["umount", text(&directory)]).ok();
    run(["check", text(&pool)]).ok();
}

#[test]
fn a_volume_in_use_is_not_checked() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (pool, directory) = (sandbox.volume("v", "64M"), sandbox.directory("mnt"));
    mount(&pool, &directory);
    run(["check", text(&pool)]).refused(1, &[text(&pool)]);
    run(["mkfs", "--force", "--pool", &sandbox.pool(0, "v.0", "64M")]).refused(1, &[text(&pool)]);
    fs::write(directory.join("file"), "still works").unwrap();
    run(["umount", text(&directory)]).ok();
    run(["check", text(&pool)]).ok();
}

#[test]
fn a_read_only_mount_refuses_every_change() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (pool, directory) = (sandbox.volume("v", "64M"), sandbox.directory("mnt"));
    let document = run([
        "mount",
        "--json",
        "--read-only",
        text(&pool),
        text(&directory),
    ])
    .ok()
    .json();
    assert_eq!(document["read_only"], true);
    let error = fs::write(directory.join("file"), "x").unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ReadOnlyFilesystem);
    run(["umount", text(&directory)]).ok();
}

#[test]
fn a_full_volume_is_enospc_and_stays_sound() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (pool, directory) = (sandbox.volume("v", "16M"), sandbox.directory("mnt"));
    mount(&pool, &directory);
    fs::write(directory.join("before"), vec![3; 1 << 20]).unwrap();
    let error = fs::write(directory.join("large"), vec![4; 64 << 20]).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::StorageFull);
    assert_eq!(
        fs::read(directory.join("before")).unwrap(),
        vec![3; 1 << 20]
    );
    fs::remove_file(directory.join("large")).unwrap();
    // The kernel tells the mount of the last close when it gets to it: until then the file is open.
    eventually("there is room again", || {
        fs::write(directory.join("after"), vec![5; 1 << 20]).is_ok()
    });
    run(["umount", text(&directory)]).ok();
    run(["check", text(&pool)]).ok();
}

#[test]
fn a_foreground_mount_ends_cleanly_on_a_signal() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (pool, directory) = (sandbox.volume("v", "64M"), sandbox.directory("mnt"));
    for signal in [Signal::INT, Signal::TERM] {
        let mut served = Background::start(&mut egeria([
            "mount",
            "--foreground",
            text(&pool),
            text(&directory),
        ]));
        eventually("it is mounted", || mounts().contains(&directory));
        fs::write(directory.join("file"), "served").unwrap();
        kill(served.id(), signal);
        assert_eq!(wait(&mut served.0), 0);
        assert!(!mounts().contains(&directory));
        run(["check", text(&pool)]).ok();
    }
}

#[test]
fn a_foreground_mount_says_once_where_it_is_mounted() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (pool, directory) = (sandbox.volume("v", "64M"), sandbox.directory("mnt"));
    let [said, log] = ["said", "log"].map(|name| sandbox.path(name));
    let output = fs::File::create(&said).unwrap();
    let mut mount = egeria(["mount", "--foreground", "--log", text(&log)]);
    let mount = mount.arg(&pool).arg(&directory).stdin(Stdio::null());
    let mount = mount.stdout(output.try_clone().unwrap()).stderr(output);
    let mut mount = Background(mount.spawn().unwrap());
    eventually("it says so", || {
        let text = fs::read_to_string(&said).unwrap();
        text.ends_with('\n')
    });
    kill(mount.id(), Signal::TERM);
    assert_eq!(wait(&mut mount.0), 0);
    // With what was logged on the terminal, and once in the file, which has no other line of it.
    for file in [said, log] {
        let text = fs::read_to_string(file).unwrap();
        assert_eq!(text.matches("mounted on").count(), 1, "{text}");
        assert_eq!(text.matches("unmounted and closed").count(), 1, "{text}");
    }
}

#[test]
fn without_fuse_one_line_says_so() {
    if !is_root() {
        return;
    }
    let sandbox = Sandbox::below(Path::new("/var/tmp"));
    let (pool, directory) = (sandbox.volume("v", "64M"), sandbox.directory("mnt"));
    // A /dev with a place for the session, but without fuse.
    let script =
        "mount -t tmpfs none /dev && mkdir /dev/shm && mknod -m 666 /dev/null c 1 3 && exec \"$@\"";
    let mut command = Command::new("unshare");
    command.args([
        "--mount",
        "sh",
        "-c",
        script,
        "sh",
        env!("CARGO_BIN_EXE_egeria"),
        "mount",
    ]);
    command.args([&pool, &directory]);
    finish(command).refused(1, &["/dev/fuse", "modprobe fuse"]);
}

#[test]
fn who_may_not_mount_is_told_in_one_line() {
    if !can_mount() || !is_root() || !anybody_can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let directory = sandbox.directory("mnt");
    // nobody owns the pool, but not the mount point.
    let owned = sandbox.directory("owned");
    std::os::unix::fs::chown(&owned, Some(65534), Some(65534)).unwrap();
    fs::set_permissions(
        &sandbox.root,
        std::os::unix::fs::PermissionsExt::from_mode(0o755),
    )
    .unwrap();
    let pool = owned.join("pool");
    let request = format!("0:{}:64M", pool.display());
    finish(as_nobody(["mkfs", "--pool", &request])).ok();
    finish(as_nobody(["mount", text(&pool), text(&directory)]))
        .refused(1, &[text(&directory), "ermission"]);
    assert!(
        mounts()
            .iter()
            .all(|mount| !mount.starts_with(&sandbox.root))
    );
}

#[test]
fn mount_logs_damage_and_its_own_start_and_end() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (pool, directory) = (sandbox.volume("v", "16M"), sandbox.directory("mnt"));
    mount(&pool, &directory);
    let attribute = "user.egeria.checksum";
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(&directory, attribute, b"crc32c", flags).unwrap();
    let bytes = b"bytes that are nowhere else".repeat(10);
    fs::write(directory.join("file"), &bytes).unwrap();
    run(["umount", text(&directory)]).ok();
    assert!(damage(&sandbox.path("v.0"), &bytes) || damage(&sandbox.path("v.1"), &bytes));

    let log = sandbox.path("log");
    run(["mount", "--log", text(&log), text(&pool), text(&directory)]).ok();
    let error = fs::read(directory.join("file")).unwrap_err();
    assert_eq!(error.raw_os_error(), Some(5), "{error}");
    run(["umount", text(&directory)]).ok();
    let logged = fs::read_to_string(&log).unwrap();
    for part in [
        "INFO",
        "mounted on",
        "checksum",
        "ERROR",
        "EIO",
        "unmounted and closed",
    ] {
        assert!(logged.contains(part), "{part}: {logged}");
    }
}

#[test]
fn striped_files_lie_on_all_nodes() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (pool, directory) = (sandbox.volume("v", "16M"), sandbox.directory("mnt"));
    mount(&pool, &directory);
    let (attribute, flags) = ("user.egeria.layout", rustix::fs::XattrFlags::empty());
    let set = |path: &Path, value: &[u8]| rustix::fs::setxattr(path, attribute, value, flags);
    set(&directory, b"striped").unwrap();
    let nonsense = set(&directory, b"striped:5000");
    assert_eq!(nonsense, Err(rustix::io::Errno::INVAL));
    let file = directory.join("file");
    fs::write(&file, vec![7; 1 << 20]).unwrap();
    let with_data = set(&file, b"local");
    assert_eq!(with_data, Err(rustix::io::Errno::OPNOTSUPP));
    let stat = run(["stat", "--json", text(&file)]).ok().json();
    assert_eq!(stat["layout"], "striped:32768");
    let nodes = stat["nodes"].as_array().unwrap();
    assert_eq!(nodes.len(), 2);
    for node in nodes {
        assert_eq!(node["bytes"], 1 << 19, "{stat}");
    }
    let shown = run(["stat", text(&file)]).ok().stdout;
    assert!(shown.contains(", striped:32768, inode"), "{shown}");
    run(["umount", text(&directory)]).ok();
}

#[test]
fn log_levels_are_chosen_by_name() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (pool, directory) = (sandbox.volume("v", "16M"), sandbox.directory("mnt"));
    let log = sandbox.path("log");
    let with = |levels: &str| {
        let arguments = ["mount", "--log", text(&log), text(&pool), text(&directory)];
        let mut command = egeria(arguments);
        command.env("EGERIA_LOG", levels);
        finish(command)
    };
    with("loud").refused(1, &["EGERIA_LOG", "loud"]);
    with("error").ok();
    run(["umount", text(&directory)]).ok();
    assert_eq!(fs::read_to_string(&log).unwrap(), "");
}

/// Mounts with a log; its path.
fn mount_logged(sandbox: &Sandbox, pool: &Path, directory: &Path) -> std::path::PathBuf {
    let log = sandbox.path("log");
    run(["mount", "--log", text(&log), text(pool), text(directory)]).ok();
    log
}

#[test]
fn mount_logs_what_recovery_did_and_who_attaches() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (pool, directory) = (sandbox.volume("v", "16M"), sandbox.directory("mnt"));
    let log = mount_logged(&sandbox, &pool, &directory);
    run(["umount", text(&directory)]).ok();
    let logged = fs::read_to_string(&log).unwrap();
    assert!(logged.contains("attached in a new session"), "{logged}");
    assert!(logged.contains(" detached"), "{logged}");
    assert!(!logged.contains("recovered"), "{logged}");

    let pid = mount(&pool, &directory)["pid"].as_u64().unwrap() as u32;
    let file = fs::File::create(directory.join("orphan")).unwrap();
    fs::remove_file(directory.join("orphan")).unwrap();
    kill(pid, Signal::KILL);
    eventually("the mount is dead", || fs::read_dir(&directory).is_err());
    drop(file);
    run(["umount", text(&directory)]).ok();
    fs::remove_file(&log).unwrap();
    mount_logged(&sandbox, &pool, &directory);
    run(["umount", text(&directory)]).ok();
    let logged = fs::read_to_string(&log).unwrap();
    for part in [
        "INFO",
        "ended without detaching",
        "recovered in",
        "1 orphans freed",
    ] {
        assert!(logged.contains(part), "{part}: {logged}");
    }
}

#[test]
fn log_lines_for_eio_name_their_cause_and_are_rate_limited() {
    use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (pool, directory) = (sandbox.volume("v", "16M"), sandbox.directory("mnt"));
    mount(&pool, &directory);
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(&directory, "user.egeria.checksum", b"crc32c", flags).unwrap();
    let bytes = b"bytes that are nowhere else".repeat(10);
    fs::write(directory.join("file"), &bytes).unwrap();
    let ino = fs::metadata(directory.join("file")).unwrap().ino();
    run(["umount", text(&directory)]).ok();
    assert!(damage(&sandbox.path("v.0"), &bytes) || damage(&sandbox.path("v.1"), &bytes));

    let log = mount_logged(&sandbox, &pool, &directory);
    // Else the kernel may ask for whole pages, as soon as it may keep them.
    let direct = rustix::fs::OFlags::DIRECT.bits() as i32;
    let mut options = fs::File::options();
    let file = options.read(true).custom_flags(direct);
    let file = file.open(directory.join("file")).unwrap();
    for _ in 0..1000 {
        let error = file.read_at(&mut [0; 100], 7).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(5), "{error}");
    }
    drop(file);
    run(["umount", text(&directory)]).ok();
    let logged = fs::read_to_string(&log).unwrap();
    let operation = format!("read of inode {ino}, 100 bytes at 7");
    let cause = format!("the block at byte 0 of inode {ino}");
    let lines = || logged.lines().filter(|line| line.contains(&operation));
    assert!(lines().all(|line| line.contains(&cause)), "{logged}");
    assert!(lines().all(|line| line.contains("checksum")), "{logged}");
    // The thousand may lie in two windows.
    assert!((20..=40).contains(&lines().count()), "{logged}");
    assert!(logged.contains("more requests failed so"), "{logged}");
    let once = format!("inode {ino}: bytes 0 to 4095");
    assert_eq!(logged.matches(&once).count(), 1, "{logged}");
}

#[test]
fn lost_stores_are_logged() {
    use std::io::Write;
    use std::os::unix::fs::MetadataExt;
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (pool, directory) = (sandbox.volume("v", "16M"), sandbox.directory("mnt"));
    let log = mount_logged(&sandbox, &pool, &directory);
    let path = directory.join("file");
    let file = fs::File::create_new(&path).unwrap();
    // More than what the threads of the mount keep for themselves.
    let bytes = 8 << 20;
    file.set_len(bytes).unwrap();
    let ino = file.metadata().unwrap().ino();
    let mut filler = fs::File::create_new(directory.join("filler")).unwrap();
    for bytes in [1 << 20, 4096] {
        while filler.write_all(&vec![7; bytes]).is_ok() {}
    }
    drop((file, filler));
    let stored = egeria_harness::fork::Forked::run(|| {
        let file = fs::File::options().read(true).write(true).open(&path);
        let mapping =
            egeria_harness::memory::Mapping::of_file(&file.unwrap(), bytes as usize, true);
        mapping.unwrap().store(0, &vec![1; bytes as usize]);
        0
    });
    assert_eq!(stored.unwrap().wait().code(), Some(0));
    run(["umount", text(&directory)]).ok();
    let logged = fs::read_to_string(&log).unwrap();
    let operation = format!("write of inode {ino}, ");
    let line = logged.lines().find(|line| line.contains(&operation));
    let line = line.unwrap_or_else(|| panic!("{logged}"));
    assert!(line.contains("No space left on device"), "{line}");
    assert!(line.contains("stored through a mapping"), "{line}");
}

#[test]
fn blocks_that_fail_are_logged_once_each() {
    use std::os::unix::fs::{FileExt, MetadataExt};
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (pool, directory) = (sandbox.volume("v", "16M"), sandbox.directory("mnt"));
    run(["mount", "--alloc", "node=1", text(&pool), text(&directory)]).ok();
    fs::write(directory.join("file"), vec![5; 4096]).unwrap();
    run(["umount", text(&directory)]).ok();

    let log = mount_logged(&sandbox, &pool, &directory);
    // A handle that appends: its reads do not come from the kernel's page cache.
    let file = fs::File::options()
        .read(true)
        .append(true)
        .open(directory.join("file"))
        .unwrap();
    assert_eq!(file.read_at(&mut [0; 100], 0).unwrap(), 100);
    let ino = file.metadata().unwrap().ino();
    let pool_file = fs::File::options()
        .write(true)
        .open(sandbox.path("v.1"))
        .unwrap();
    let whole = pool_file.metadata().unwrap().len();
    pool_file.set_len(4096).unwrap();
    for _ in 0..3 {
        let error = file.read_at(&mut [0; 100], 0).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(5), "{error}");
    }
    pool_file.set_len(whole).unwrap();
    drop(file);
    run(["umount", text(&directory)]).ok();
    let logged = fs::read_to_string(&log).unwrap();
    let request = logged
        .lines()
        .find(|line| line.contains(&format!("read of inode {ino}, 100 bytes at 0")))
        .expect("a line for the request");
    let (_, block) = request.split_once("EIO: block ").expect("the block");
    let (block, _) = block.split_once(' ').unwrap();
    assert!(
        request.contains("of pool 1 cannot be accessed"),
        "{request}"
    );
    let once = format!("{}: block {block} of pool 1 ", text(&sandbox.path("v.1")));
    assert_eq!(logged.matches(&once).count(), 1, "{logged}");
}
