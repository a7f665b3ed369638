//! Two users on one machine: root's commands are not led astray by what another user left for them.

use crate::common;

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::process::Signal;
use std::ffi::CString;
use std::fs;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{
    Background, Sandbox, as_nobody, can_mount, egeria, eventually, finish, is_root, kill, run, text,
};

const NOBODY: u32 = 65_534;

/// A sandbox that everybody may enter, with a directory of nobody's in it.
fn two_users() -> Option<(Sandbox, PathBuf)> {
    if !is_root() {
        return None;
    }
    let sandbox = Sandbox::new();
    fs::set_permissions(&sandbox.root, fs::Permissions::from_mode(0o755)).unwrap();
    let theirs = sandbox.directory("theirs");
    fs::set_permissions(&theirs, fs::Permissions::from_mode(0o700)).unwrap();
    chown(&theirs, Some(NOBODY), Some(NOBODY)).unwrap();
    Some((sandbox, theirs))
}

/// A volume that nobody made for himself; its pool.
fn volume_of_nobody(theirs: &Path) -> PathBuf {
    let pool = theirs.join("pool");
    let request = format!("0:{}:64M", text(&pool));
    finish(as_nobody(["mkfs", "--pool", &request])).ok();
    pool
}

/// Tells whether a file was opened.
struct Opened(OwnedFd);

impl Opened {
    fn watch(path: &Path) -> Opened {
        let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC).unwrap();
        inotify::add_watch(&queue, path, WatchFlags::OPEN).unwrap();
        Opened(queue)
    }

    fn was_opened(&self) -> bool {
        let mut events = [0_u8; 4096];
        rustix::io::read(&self.0, &mut events).is_ok_and(|bytes| bytes > 0)
    }
}

/// A mount of nobody's that names something as its volume, as `fusermount3` makes it for him. Nobody serves it:
/// who asks it, is told that its process has ended.
struct MountOfNobody(PathBuf);

impl MountOfNobody {
    fn make(directory: PathBuf, source: &Path) -> MountOfNobody {
        MountOfNobody::of_silent_server(directory, source, "").0
    }

    /// As long as the file is open, whoever asks the mount waits.
    fn of_silent_server(directory: PathBuf, source: &Path, more: &str) -> (Self, fs::File) {
        let device = fs::File::options().read(true).write(true).open("/dev/fuse");
        let device = device.unwrap();
        let options = format!(
            "fd={},rootmode=40000,user_id={NOBODY},group_id={NOBODY}{more}",
            device.as_raw_fd()
        );
        let options = CString::new(options).unwrap();
        let flags = rustix::mount::MountFlags::empty();
        rustix::mount::mount(source, &directory, "fuse.egeria", flags, options.as_c_str()).unwrap();
        (MountOfNobody(directory), device)
    }
}

impl Drop for MountOfNobody {
    fn drop(&mut self) {
        let mut command = Command::new("umount");
        let _ = command.arg("-lq").arg(&self.0).status();
    }
}

fn is_mounted(directory: &Path) -> bool {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    mounts.contains(&format!(" {} ", text(directory)))
}

fn fifo(path: PathBuf) -> PathBuf {
    let made = Command::new("mkfifo").arg(&path).status().unwrap();
    assert!(made.success());
    path
}

#[test]
fn df_opens_nothing_that_another_user_s_mount_names() {
    let Some((sandbox, _)) = two_users().filter(|_| can_mount()) else {
        return;
    };
    let secret = sandbox.volume("secret", "32M");
    let pipe = fifo(sandbox.path("pipe"));
    for (number, source) in [secret, pipe].iter().enumerate() {
        let mount = sandbox.directory(&format!("mnt{number}"));
        let _mount = MountOfNobody::make(mount.clone(), source);
        let opened = Opened::watch(source);
        let ended = run(["df", "--json"]);
        assert!(!opened.was_opened(), "{source:?}: {ended:?}");
        // Other tests' mounts come and go, which it says.
        let document = ended.json();
        let left_out = document["left_out"].as_array().unwrap();
        let ours = |one: &&serde_json::Value| one["directory"] == text(&mount);
        let left_out = left_out.iter().find(ours).expect("named as left out");
        assert_eq!(left_out["user"], NOBODY);
        let shown = document["volumes"].to_string();
        assert!(!shown.contains(text(&mount)), "{shown}");
    }
}

#[test]
fn what_is_no_pool_is_not_opened_by_any_command() {
    let Some((sandbox, _)) = two_users() else {
        return;
    };
    let pipe = fifo(sandbox.path("pipe"));
    let opened = Opened::watch(&pipe);
    let (pipe, directory) = (text(&pipe), sandbox.directory("mnt"));
    let request = format!("0:{pipe}:64M");
    let commands: [&[&str]; 9] = [
        &["df", pipe],
        &["scrub", pipe],
        &["check", pipe],
        &["steward", pipe],
        &["top", "--once", pipe],
        &["explain", "--volume", pipe],
        &["mount", pipe, text(&directory)],
        &["run", "--volume", pipe, "--", "true"],
        &["mkfs", "--pool", &request],
    ];
    for command in commands {
        run(command).refused(1, &[pipe, "pipe"]);
        assert!(!opened.was_opened(), "{command:?}");
    }
    run(["df", "/dev/tty"]).refused(1, &["/dev/tty", "character device"]);
}

#[test]
fn root_s_commands_work_on_another_user_s_pools_as_that_user() {
    let Some((_sandbox, theirs)) = two_users() else {
        return;
    };
    let pool = volume_of_nobody(&theirs);
    let pool = text(&pool);
    let says_so = |ended: &common::Ended| {
        let line = ended.stderr.lines().next().unwrap_or_default();
        assert!(
            line.contains("running as nobody (uid 65534), who owns"),
            "{ended:?}"
        );
    };
    for command in [&["df", pool][..], &["check", pool], &["scrub", pool]] {
        says_so(&run(command).ok());
    }
    for command in [&["steward", pool][..], &["top", "--once", pool]] {
        let ended = run(command);
        says_so(&ended);
        assert!(
            ended.status == 1 && ended.stderr.contains("mount it first"),
            "{ended:?}"
        );
    }
    // As that user indeed: what he cannot reach, root's command does not reach for him.
    chown(&theirs, Some(0), Some(0)).unwrap();
    for command in ["df", "check", "scrub"] {
        let ended = run([command, pool]);
        assert!(
            ended.status == 1 && ended.stderr.contains("ermission"),
            "{ended:?}"
        );
    }
}

#[test]
fn root_refuses_to_mount_pools_of_other_users() {
    let Some((sandbox, theirs)) = two_users() else {
        return;
    };
    let pool = volume_of_nobody(&theirs);
    let directory = sandbox.directory("mnt");
    let (pool, directory) = (text(&pool), text(&directory));
    let request = format!("0:{pool}");
    let words = [pool, "nobody (uid 65534)", "setpriv --reuid=65534"];
    run(["mount", pool, directory]).refused(1, &words);
    run(["mkfs", "--force", "--pool", &request]).refused(1, &words);
    let ended = run(["run", "--volume", pool, "--", "sh", "-c", "echo ran"]);
    ended.refused(1, &words);
}

#[test]
fn a_mount_of_another_user_is_asked_as_that_user() {
    let Some((sandbox, _)) = two_users().filter(|_| can_mount()) else {
        return;
    };
    let own = sandbox.volume("own", "32M");
    let mount = MountOfNobody::make(sandbox.directory("mnt"), &own);
    let opened = Opened::watch(&own);
    let directory = text(&mount.0);
    let commands: [&[&str]; 4] = [
        &["df", directory],
        &["scrub", directory],
        &["stat", directory],
        &["top", "--once", directory],
    ];
    for command in commands {
        let ended = run(command);
        let line = ended.stderr.lines().next().unwrap_or_default();
        assert!(
            line.contains("running as nobody (uid 65534), who mounted"),
            "{ended:?}"
        );
        assert_eq!(ended.status, 1, "{ended:?}");
    }
    assert!(!opened.was_opened());
    run(["umount", directory]).ok();
}

#[test]
fn a_run_mounts_in_no_directory_of_another_user() {
    let Some((sandbox, theirs)) = two_users().filter(|_| can_mount()) else {
        return;
    };
    // In the second, root's own directory lies where nobody can replace it.
    let below = theirs.join("below");
    fs::create_dir(&below).unwrap();
    fs::set_permissions(&below, fs::Permissions::from_mode(0o700)).unwrap();
    let own = sandbox.directory("own");
    fs::set_permissions(&own, fs::Permissions::from_mode(0o700)).unwrap();
    let link = sandbox.path("link");
    symlink(&own, &link).unwrap();
    std::os::unix::fs::lchown(&link, Some(NOBODY), None).unwrap();
    let mount_of = |runtime: &Path| {
        let script = "echo $EGERIA_MOUNT; stat -c '%u %a' $EGERIA_MOUNT/..";
        let mut command = egeria(["run", "--scratch", "32M", "--", "sh", "-c", script]);
        command.env("XDG_RUNTIME_DIR", runtime);
        finish(command).ok().stdout
    };
    for hostile in [&theirs, &below, &link] {
        let mount = mount_of(hostile);
        assert!(
            mount.starts_with("/tmp/egeria-run-"),
            "{hostile:?}: {mount}"
        );
    }
    let mount = mount_of(&own);
    assert!(mount.starts_with(text(&own)), "{mount}");
    assert_eq!(fs::read_dir(&own).unwrap().count(), 0, "left behind");
}

#[test]
fn root_unmounts_an_unanswering_mount_of_another_user() {
    let Some((sandbox, _)) = two_users().filter(|_| can_mount()) else {
        return;
    };
    let mount = sandbox.directory("mount");
    let hung = MountOfNobody::of_silent_server(mount.clone(), Path::new("/x"), ",allow_other");
    finish(egeria(["umount", text(&mount)])).ok();
    assert!(!is_mounted(&mount));
    drop(hung);
}

#[test]
fn no_link_of_another_user_leads_a_mount_of_root_elsewhere() {
    let Some((sandbox, theirs)) = two_users().filter(|_| can_mount()) else {
        return;
    };
    let pool = sandbox.volume("volume", "32M");
    let own = sandbox.directory("own");
    let inside = own.join("inside");
    fs::create_dir(&inside).unwrap();
    let (direct, above) = (theirs.join("direct"), theirs.join("above"));
    for (link, target) in [(&direct, &inside), (&above, &own)] {
        symlink(target, link).unwrap();
        std::os::unix::fs::lchown(link, Some(NOBODY), None).unwrap();
    }
    let refused = |ended: common::Ended| {
        let named = ended.stderr.contains("is a link of another user");
        assert!(ended.status == 1 && named, "{ended:?}");
    };
    for path in [&direct, &above.join("inside")] {
        refused(run(["mount", text(&pool), text(path)]));
        assert!(!is_mounted(&inside));
        run(["mount", text(&pool), text(&inside)]).ok();
        refused(run(["umount", text(path)]));
        assert!(is_mounted(&inside));
        run(["umount", text(&inside)]).ok();
    }
    // Root's own links, and directories of the other user, are all right.
    let (link, their_own) = (sandbox.path("link"), theirs.join("mount"));
    symlink(&their_own, &link).unwrap();
    fs::create_dir(&their_own).unwrap();
    chown(&their_own, Some(NOBODY), Some(NOBODY)).unwrap();
    run(["mount", text(&pool), text(&link)]).ok();
    assert!(is_mounted(&their_own));
    run(["umount", text(&link)]).ok();
}

#[test]
fn logs_and_recordings_are_their_maker_s_alone() {
    let Some((sandbox, theirs)) = two_users().filter(|_| can_mount()) else {
        return;
    };
    let runtime = sandbox.path("runtime");
    let (log, trace) = (sandbox.path("log"), sandbox.path("trace"));
    let record = |log: &Path, trace: &Path| {
        let files = ["--decisions", text(log), "--record", text(trace)];
        let fixed = ["run", "--scratch", "32M", "--policy", "rl"];
        let mut command = egeria([&fixed[..], &files, &["--", "true"]].concat());
        command.env("EGERIA_RUNTIME_DIR", &runtime);
        finish(command)
    };
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
    record(&log, &trace).ok();
    assert_eq!(
        (mode(&log), mode(&trace), mode(&runtime)),
        (0o600, 0o600, 0o700)
    );
    for path in [&log, &trace] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o666)).unwrap();
    }
    record(&log, &trace).ok();
    assert_eq!(
        (mode(&log), mode(&trace)),
        (0o600, 0o600),
        "they were there already"
    );
    // What another user put there is neither written to nor followed.
    let (prepared, linked) = (theirs.join("log"), sandbox.path("linked"));
    fs::write(&prepared, "").unwrap();
    chown(&prepared, Some(NOBODY), Some(NOBODY)).unwrap();
    symlink(sandbox.path("elsewhere"), &linked).unwrap();
    for hostile in [&prepared, &linked] {
        let ended = record(hostile, &trace);
        assert!(
            ended.status == 1 && ended.stderr.contains(text(hostile)),
            "{ended:?}"
        );
        let ended = record(&log, hostile);
        assert!(
            ended.status == 1 && ended.stderr.contains(text(hostile)),
            "{ended:?}"
        );
    }
    assert_eq!(fs::read(&prepared).unwrap(), b"");
    assert!(!sandbox.path("elsewhere").exists());
}

/// Commands that write the file, each with status 0 where they may.
fn writers<'a>(file: &'a str, pool: &'a str, directory: &'a str) -> Vec<Vec<&'a str>> {
    let run = ["run", "--no-volume", "--report", file, "--", "true"];
    let workload = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../model/sim/workloads/fio-4-rw80.toml"
    );
    let sim = [
        "sim",
        "--machine",
        "optane-2s",
        "--compare",
        "off",
        "--workload",
        workload,
    ];
    vec![
        run.to_vec(),
        [&sim[..], &["--report", file]].concat(),
        vec!["mount", "--log", file, pool, directory],
    ]
}

#[test]
fn no_link_of_another_user_leads_what_commands_write_elsewhere() {
    let Some((sandbox, theirs)) = two_users().filter(|_| can_mount()) else {
        return;
    };
    let pool = sandbox.volume("volume", "32M");
    let directory = sandbox.directory("mnt");
    let victim = sandbox.file("victim", "root's own");
    fs::set_permissions(&victim, fs::Permissions::from_mode(0o644)).unwrap();
    let (link, place) = (theirs.join("link"), theirs.join("place"));
    symlink(&victim, &link).unwrap();
    symlink(&sandbox.root, &place).unwrap();
    for planted in [&link, &place] {
        lchown(planted, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let through = place.join("victim");
    for planted in [link, through] {
        for command in writers(text(&planted), text(&pool), text(&directory)) {
            let ended = run(&command);
            assert_eq!(ended.status, 1, "{command:?}: {ended:?}");
            assert!(ended.stderr.contains(text(&planted)), "{ended:?}");
        }
    }
    let kept = fs::read_to_string(&victim).unwrap();
    assert_eq!(kept, "root's own");
    let mode = fs::metadata(&victim).unwrap().mode() & 0o7777;
    assert_eq!(mode, 0o644);
    assert!(!is_mounted(&directory));
}

#[test]
fn own_links_are_followed_and_the_umask_counts() {
    let sandbox = Sandbox::new();
    let directory = sandbox.directory("real");
    symlink("real", sandbox.path("link")).unwrap();
    let report = sandbox.path("link/report");
    run(writers(text(&report), "", "")[0].clone()).ok();
    let mode = |path: &Path| fs::metadata(path).unwrap().mode() & 0o7777;
    let plain = sandbox.file("plain", "");
    assert_eq!(mode(&directory.join("report")), mode(&plain));
}

#[test]
fn a_file_system_below_that_never_answers_is_left_out() {
    let Some((sandbox, _)) = two_users().filter(|_| can_mount()) else {
        return;
    };
    let directory = sandbox.directory("directory");
    let below = sandbox.directory("directory/below");
    sandbox.file("directory/file", "x");
    let source = sandbox.file("source", "");
    let more = ",allow_other";
    let (_mount, _silent) = MountOfNobody::of_silent_server(below, &source, more);
    let ended = run(["where", text(&directory)]).ok();
    assert!(
        ended.stdout.contains("1 mounts below were left out"),
        "{ended:?}"
    );
    for command in ["warm", "move"] {
        let ended = run([command, "--node", "0", text(&directory), "--json"]);
        assert_eq!(ended.json()["files"], 1, "{command}: {ended:?}");
    }
}

#[test]
fn signals_end_commands_that_a_file_system_never_answers() {
    let Some((sandbox, _)) = two_users().filter(|_| can_mount()) else {
        return;
    };
    let place = sandbox.directory("place");
    let source = sandbox.file("source", "");
    let (_mount, _silent) = MountOfNobody::of_silent_server(place.clone(), &source, ",allow_other");
    let commands: [&[&str]; 3] = [
        &["where"],
        &["warm", "--node", "0"],
        &["move", "--node", "0"],
    ];
    for command in commands {
        let mut process = egeria(command.iter().copied().chain([text(&place)]));
        let mut process = Background::start(&mut process);
        let waits = format!("/proc/{}/wchan", process.id());
        eventually("it waits for the file system", || {
            fs::read_to_string(&waits)
                .is_ok_and(|at| at.contains("request_wait") || at.contains("fuse"))
        });
        kill(process.id(), Signal::INT);
        eventually("a signal ends it", || {
            process.0.try_wait().unwrap().is_some()
        });
    }
}

#[test]
fn maintainer_scripts_print_nothing_that_steers_a_terminal() {
    let Some((sandbox, _)) = two_users().filter(|_| can_mount()) else {
        return;
    };
    let mount = sandbox.directory("odd\u{1b}[31m \u{9b}\u{7}");
    let _mount = MountOfNobody::make(mount, &sandbox.file("source", ""));
    let scripts = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../packaging/debian");
    for (script, arguments) in [
        ("egeria.prerm", &["remove"][..]),
        ("egeria.postinst", &["configure", "0.1"]),
    ] {
        // Where it runs, systemd would be told to read its units anew.
        if script == "egeria.postinst" && Path::new("/run/systemd/system").exists() {
            continue;
        }
        let ended = Command::new("sh")
            .arg(scripts.join(script))
            .args(arguments)
            .output();
        let said = ended.unwrap().stdout;
        let is_plain = |byte: &u8| matches!(byte, b' '..=b'~' | b'\n');
        assert!(said.iter().all(is_plain), "{script}: {said:?}");
        let said = String::from_utf8(said).unwrap();
        assert!(said.contains("odd?[31m"), "{script}: {said}");
    }
}

#[test]
fn what_is_installed_everybody_may_read_whatever_the_umask() {
    let Some((sandbox, _)) = two_users() else {
        return;
    };
    let (built, prefix) = (sandbox.directory("built"), sandbox.path("usr"));
    symlink(env!("CARGO_BIN_EXE_egeria"), built.join("egeria")).unwrap();
    let others = [
        "conformance",
        "datapath-worker",
        "filebench",
        "loopback",
        "names-worker",
    ];
    for name in others.map(|name| format!("egeria-{name}")) {
        fs::write(built.join(name), "").unwrap();
    }
    fs::write(built.join("libegeria_preload.so"), "").unwrap();
    // An archive without members.
    fs::write(built.join("libegeria.a"), "!<arch>\n").unwrap();
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../scripts/install");
    let install = |umask: &str| {
        let line = format!(
            "umask {umask}; exec {script} {} {}",
            text(&built),
            text(&prefix)
        );
        let mut command = Command::new("sh");
        command.args(["-c", &line]);
        finish(command).ok();
    };
    // A man page that an earlier release left closed is open after the next one.
    install("077");
    let page = prefix.join("share/man/man1/egeria.1");
    fs::set_permissions(&page, fs::Permissions::from_mode(0o600)).unwrap();
    install("077");
    let mut find = Command::new("find");
    find.arg(&prefix).args([
        "!", "-perm", "-444", "-o", "-type", "d", "!", "-perm", "-555",
    ]);
    assert_eq!(finish(find).ok().stdout, "", "closed to others");
    assert!(page.exists() && prefix.join("share/zsh/site-functions/_egeria").exists());
}
