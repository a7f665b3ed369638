//! Names with any bytes: each command answers, in JSON that is JSON, and in lines that steer no terminal.

mod common;

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use common::{Background, Ended, Sandbox, can_mount, egeria, run};
use serde_json::Value;

/// No UTF-8, an escape for terminals, a line end, quotes and HTML.
const ODD: &[u8] = b"odd\xff\x1b[31m\n\"'<b>&amp;";
/// The same as documents have it.
const SHOWN: &str = "odd\u{fffd}\u{1b}[31m\n\"'<b>&amp;";

fn odd(sandbox: &Sandbox) -> PathBuf {
    sandbox.root.join(OsStr::from_bytes(ODD))
}

/// The words of a command, and this path at the end.
fn words(command: &[&str], path: &Path) -> Vec<OsString> {
    let words = command.iter().map(OsString::from);
    words.chain([path.as_os_str().to_owned()]).collect()
}

#[track_caller]
fn steers_nothing(ended: &Ended) {
    let steers = |letter: char| letter.is_control() && letter != '\n';
    assert!(!ended.stdout.contains(steers), "{:?}", ended.stdout);
    assert!(!ended.stderr.contains(steers), "{:?}", ended.stderr);
}

/// The command answers, for people and as JSON; the document.
#[track_caller]
fn answers(command: &[&str], path: &Path) -> Value {
    let plain = run(words(command, path)).ok();
    steers_nothing(&plain);
    let json = [&["--json"], command].concat();
    run(words(&json, path)).ok().json()
}

#[test]
fn where_warm_and_move_answer_for_names_with_any_bytes() {
    let sandbox = Sandbox::new();
    let directory = odd(&sandbox);
    fs::create_dir(&directory).unwrap();
    let file = directory.join(OsStr::from_bytes(ODD));
    fs::write(&file, "content").unwrap();
    let is_path = |path: &Value| path.as_str().is_some_and(|path| path.ends_with(SHOWN));
    let document = answers(&["where", "--observe", "1"], &file);
    assert!(is_path(&document["path"]), "{document}");
    let document = answers(&["where", "--observe", "1"], &directory);
    assert!(is_path(&document["path"]), "{document}");
    assert!(is_path(&document["largest"][0]["path"]), "{document}");
    for command in ["warm", "move"] {
        assert_eq!(answers(&[command, "--node", "0"], &directory)["files"], 1);
    }
    let missing = directory.join("missing");
    for command in [
        "where", "stat", "df", "umount", "check", "scrub", "trace", "replay",
    ] {
        let ended = run(words(&[command], &missing));
        assert!(matches!(ended.status, 1 | 2), "{command}: {ended:?}");
        assert_eq!(ended.stderr.lines().count(), 1, "{command}: {ended:?}");
        steers_nothing(&ended);
    }
}

#[test]
fn a_process_may_have_any_name_and_any_files() {
    let sandbox = Sandbox::new();
    let program = odd(&sandbox);
    // A copy could not be executed while a child of another test has it open for writing.
    std::os::unix::fs::symlink("/bin/sleep", &program).unwrap();
    let data = sandbox.root.join(OsStr::from_bytes(b"data\xfe\x1b[2J"));
    fs::write(&data, vec![1; 8192]).unwrap();
    let mut command = Command::new(&program);
    let command = command.arg("600").stdin(File::open(&data).unwrap());
    let command = command.stdout(Stdio::null()).stderr(Stdio::null());
    let process = Background(command.spawn().unwrap());
    let id = process.id().to_string();
    common::eventually("it runs the program", || {
        fs::read(format!("/proc/{id}/comm")).is_ok_and(|name| name.starts_with(b"odd"))
    });
    let document = answers(&["where", "--observe", "1"], Path::new(&id));
    let files = document["open"][0]["path"].to_string();
    assert!(files.contains("data\u{fffd}"), "{document}");
    let command = ["where", "--observe", "1"];
    let document = answers(&command, &data);
    let users = document["users"].as_array().unwrap();
    let named = users.iter().find(|user| user["process_id"] == process.id());
    let name = &named.expect("it has the file open")["name"];
    assert!(name.as_str().unwrap().starts_with("odd\u{fffd}?[31m?"));
}

#[test]
fn a_volume_and_its_mount_may_have_any_names() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (pool, directory) = (
        odd(&sandbox),
        sandbox.root.join(OsStr::from_bytes(b"mnt\xff\x1b[31m\n")),
    );
    fs::create_dir(&directory).unwrap();
    run(["mkfs", "--pool", &sandbox.pool(0, "plain", "64M")]).ok();
    fs::rename(sandbox.path("plain"), &pool).unwrap();
    let log = sandbox.root.join(OsStr::from_bytes(b"log\xff"));
    let arguments = ["mount", "--json", "--log"].map(OsStr::new);
    let mounted = run(arguments.into_iter().chain([
        log.as_os_str(),
        pool.as_os_str(),
        directory.as_os_str(),
    ]));
    assert!(
        mounted.ok().json()["directory"]
            .as_str()
            .unwrap()
            .contains("mnt\u{fffd}")
    );
    fs::write(directory.join(OsStr::from_bytes(ODD)), "kept").unwrap();
    let file = directory.join(OsStr::from_bytes(ODD));
    for command in ["stat", "where", "df"] {
        answers(&[command], &file);
    }
    answers(&["df"], &directory);
    // Mounts of others on this machine may fail; ours is shown.
    steers_nothing(&run(["df"]));
    let all = run(["df", "--json"]).json().to_string();
    assert!(all.contains("mnt\u{fffd}"), "{all}");
    let ended = run(words(&["umount", "--json"], &directory)).ok();
    ended.json();
    let logged = fs::read_to_string(&log).unwrap();
    assert!(!logged.contains('\x1b'), "{logged:?}");
    assert!(
        logged.lines().all(|line| line.starts_with("20")),
        "{logged:?}"
    );
    answers(&["check"], &pool);
}

#[test]
fn a_run_names_its_command_and_files_whatever_their_bytes() {
    let sandbox = Sandbox::new();
    let report = odd(&sandbox);
    let arguments = ["run", "--no-volume", "--json", "--report"].map(OsStr::new);
    let script = ["--", "true"].map(OsStr::new);
    let odd = OsStr::from_bytes(b"\xff\x1b[31m");
    let mut command = egeria(
        arguments
            .into_iter()
            .chain([report.as_os_str()])
            .chain(script),
    );
    command.arg(odd);
    let ended = common::finish(command).ok();
    steers_nothing(&ended);
    assert_eq!(ended.json()["command"][1], "\u{fffd}\u{1b}[31m");
    let report: Value = serde_json::from_slice(&fs::read(&report).unwrap()).unwrap();
    assert_eq!(report["command"][0], "true");
}
