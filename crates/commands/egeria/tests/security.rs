//! docs/reference/security.md, as another user meets it.

use crate::common;

use std::fs;
use std::os::unix::fs::{FileExt, MetadataExt, PermissionsExt};
use std::path::PathBuf;
use std::process::Command;

use common::{Sandbox, as_nobody, can_mount, finish, is_root, run, text};

/// A volume that is mounted for everybody, in a directory everybody may enter.
struct Shared {
    sandbox: Sandbox,
    pool: PathBuf,
    directory: PathBuf,
    volume: String,
}

impl Shared {
    fn new() -> Option<Shared> {
        if !can_mount() || !is_root() {
            return None;
        }
        let sandbox = Sandbox::new();
        fs::set_permissions(&sandbox.root, fs::Permissions::from_mode(0o755)).unwrap();
        let (pool, directory) = (sandbox.volume("v", "64M"), sandbox.directory("mnt"));
        let mount = ["mount", "--allow-other", text(&pool), text(&directory)];
        run(mount).ok();
        let volume = run(["df", "--json", text(&pool)]).ok().json();
        let volume = volume["volumes"][0]["volume"].as_str().unwrap().to_owned();
        Some(Shared {
            sandbox,
            pool,
            directory,
            volume,
        })
    }

    fn session(&self) -> PathBuf {
        let volume = self.volume.replace('-', "");
        let inside = |directory: PathBuf| fs::read_dir(directory).into_iter().flatten().flatten();
        let places = inside("/dev/shm".into()).flat_map(|entry| inside(entry.path()));
        let mut paths = places.map(|entry| entry.path());
        let is_ours = |path: &PathBuf| text(path.as_path()).contains(&volume);
        paths.find(is_ours).expect("a session")
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        run(["umount", text(&self.directory)]);
    }
}

fn shell_as_nobody(script: &str) -> common::Ended {
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .args(["sh", "-c", script]);
    finish(command)
}

#[test]
fn pools_and_the_session_belong_to_their_owner_alone() {
    let Some(shared) = Shared::new() else { return };
    let mut paths = vec![shared.session()];
    paths.extend(["v.0", "v.1"].map(|name| shared.sandbox.path(name)));
    for path in paths {
        let metadata = fs::metadata(&path).unwrap();
        assert_eq!(metadata.mode() & 0o7777, 0o600, "{path:?}");
        assert_eq!(metadata.uid(), 0, "{path:?}");
        let read = shell_as_nobody(&format!("cat {}", text(&path)));
        assert_ne!(read.status, 0, "{path:?}");
        assert!(read.stdout.is_empty());
    }
}

#[test]
fn another_user_reaches_the_volume_by_no_command() {
    let Some(shared) = Shared::new() else { return };
    let (pool, directory) = (text(&shared.pool), text(&shared.directory));
    let commands: [&[&str]; 8] = [
        &["df", pool],
        &["check", pool],
        &["check", "--repair", pool],
        &["scrub", pool],
        &["scrub", directory],
        &["steward", pool],
        &["top", "--once", pool],
        &["run", "--volume", pool, "--", "true"],
    ];
    for command in commands {
        let ended = finish(as_nobody(command));
        assert_ne!(ended.status, 0, "{command:?}: {ended:?}");
        assert_eq!(ended.stderr.lines().count(), 1, "{command:?}: {ended:?}");
    }
    // Nothing broke for those who may.
    fs::write(shared.directory.join("file"), "here").unwrap();
    assert_eq!(fs::read(shared.directory.join("file")).unwrap(), b"here");
}

#[test]
fn modes_decide_for_other_users_on_the_mount() {
    let Some(shared) = Shared::new() else { return };
    let path = |name: &str| shared.directory.join(name);
    for (name, mode) in [("secret", 0o600), ("public", 0o644), ("open", 0o666)] {
        fs::write(path(name), name).unwrap();
        fs::set_permissions(path(name), fs::Permissions::from_mode(mode)).unwrap();
    }
    let status = |script: String| shell_as_nobody(&script).status;
    let (secret, public, open) = (path("secret"), path("public"), path("open"));
    let (secret, public, open) = (text(&secret), text(&public), text(&open));
    assert_ne!(status(format!("cat {secret}")), 0);
    assert_eq!(status(format!("cat {public}")), 0);
    assert_ne!(status(format!("echo x >> {public}")), 0);
    assert_eq!(status(format!("echo x >> {open}")), 0);
    assert_ne!(status(format!("rm -f {open}")), 0);
    assert_ne!(status(format!("chmod 777 {open}")), 0);
    assert_eq!(fs::read(path("public")).unwrap(), b"public");
    assert_eq!(fs::read(path("open")).unwrap(), b"openx\n");
}

#[test]
fn what_was_deleted_is_shown_to_nobody() {
    let Some(shared) = Shared::new() else { return };
    let secret = b"the secret of the one before".repeat(2000);
    let shows_secret = |bytes: &[u8]| bytes.windows(10).any(|window| window == &secret[..10]);
    let path = |name: &str| shared.directory.join(name);
    // All blocks of the volume held the secret once.
    for round in 0.. {
        match fs::write(path(&format!("old{round}")), secret.repeat(20)) {
            Ok(()) => {}
            Err(error) => {
                assert_eq!(error.raw_os_error(), Some(libc::ENOSPC));
                break;
            }
        }
    }
    for entry in fs::read_dir(&shared.directory).unwrap().flatten() {
        fs::remove_file(entry.path()).unwrap();
    }
    let new = |name: &str| {
        let mut options = fs::File::options();
        let options = options.read(true).write(true).create_new(true);
        options.open(path(name)).unwrap()
    };
    let longer = new("longer");
    longer.set_len(3_000_000).unwrap();
    longer.write_all_at(b"x", 1_000_001).unwrap();
    let edges = new("edges");
    for at in (0..200u64).map(|index| index * 12_289) {
        edges.write_all_at(b"y", at).unwrap();
    }
    edges.set_len(1_000_003).unwrap();
    edges.set_len(2_500_000).unwrap();
    let reserved = new("reserved");
    let script = format!("fallocate -l 3000000 {}", text(&path("reserved")));
    assert_eq!(finish(shell(&script)).status, 0);
    reserved.write_all_at(b"z", 5000).unwrap();
    for name in ["longer", "edges", "reserved"] {
        let bytes = fs::read(path(name)).unwrap();
        assert!(bytes.len() >= 2_500_000 && !shows_secret(&bytes), "{name}");
        let written = bytes.iter().filter(|byte| **byte != 0).count();
        assert!((1..=200).contains(&written), "{name}: {written} bytes");
    }
}

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", script]);
    command
}

/// In a mount namespace with a `/dev/shm` of its own, where another user took the name of root's directory.
const WITHOUT_OWN_NAME: &str = r#"
mount -t tmpfs -o mode=1777 tmpfs /dev/shm
mkdir /dev/shm/egeria-0 /dev/shm/egeria-0-0 /tmp/egeria-mnt.$$
chown 65534 /dev/shm/egeria-0 /dev/shm/egeria-0-0
echo ready
read go
e=$1 point=/tmp/egeria-mnt.$$
$e mkfs --pool 0:/dev/shm/pool:64MiB && $e mount /dev/shm/pool $point &&
$e run --volume /dev/shm/pool -- sh -c 'echo a > "$EGERIA_MOUNT/file"' && cat $point/file &&
$e umount $point && $e check /dev/shm/pool && $e run --scratch 64MiB -- true
status=$?
rmdir $point
exit $status
"#;

#[test]
fn no_command_searches_dev_shm() {
    use rustix::fs::inotify::{CreateFlags, ReadFlags, Reader, WatchFlags, add_watch, init};
    use std::io::{BufRead, Write};
    if !can_mount() || !is_root() {
        return;
    }
    let mut command = Command::new("unshare");
    command.args([
        "--mount",
        "--propagation",
        "private",
        "sh",
        "-ec",
        WITHOUT_OWN_NAME,
        "sh",
    ]);
    command.arg(env!("CARGO_BIN_EXE_egeria"));
    command.env("EGERIA_PRELOAD_LIB", common::preload_library());
    let mut child = (command.stdin(std::process::Stdio::piped()))
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    let mut ready = String::new();
    let mut out = std::io::BufReader::new(child.stdout.take().unwrap());
    out.read_line(&mut ready).unwrap();
    assert_eq!(ready, "ready\n");
    let watching = init(CreateFlags::NONBLOCK).unwrap();
    let memory = format!("/proc/{}/root/dev/shm", child.id());
    add_watch(&watching, memory, WatchFlags::ACCESS).unwrap();
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let said = std::io::read_to_string(out).unwrap();
    assert!(child.wait().unwrap().success(), "{said}");
    let mut room = [std::mem::MaybeUninit::uninit(); 4096];
    let mut events = Reader::new(&watching, &mut room);
    while let Ok(event) = events.next() {
        // An event without a name is about the directory itself.
        let searched = event.file_name().is_none() && event.events().contains(ReadFlags::ACCESS);
        assert!(!searched, "/dev/shm was read as a directory");
    }
}
