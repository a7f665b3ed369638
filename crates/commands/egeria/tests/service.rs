//! Volumes as services: the settings, the units of the package, and what a service manager is told.

use crate::common;
use egeria_harness::testing::skip;

use rustix::process::{Pid, WaitOptions, waitpid};
use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use common::{Background, Sandbox, can_mount, egeria, kill, mounts, run, text};
use rustix::process::Signal;

fn packaging() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../packaging")
}

/// Where a service manager listens.
struct Manager {
    socket: UnixDatagram,
    path: PathBuf,
}

impl Manager {
    fn new(sandbox: &Sandbox) -> Manager {
        let path = sandbox.path("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(common::PATIENCE)).unwrap();
        Manager { socket, path }
    }

    fn watches(&self, command: &mut Command) {
        command
            .env("NOTIFY_SOCKET", &self.path)
            .env("WATCHDOG_USEC", "100000")
            .env_remove("WATCHDOG_PID");
    }

    /// Waits for a message that has this line.
    #[track_caller]
    fn hears(&self, line: &str) {
        let mut room = [0; 4096];
        let started = Instant::now();
        loop {
            assert!(started.elapsed() < common::PATIENCE, "never: {line}");
            let length = self.socket.recv(&mut room).expect(line);
            let message = String::from_utf8_lossy(&room[..length]).into_owned();
            if message.lines().any(|said| said == line) {
                return;
            }
        }
    }
}

impl Manager {
    /// Waits until nothing comes for so long.
    #[track_caller]
    fn hears_nothing_for(&self, silence: Duration) {
        let started = Instant::now();
        self.socket.set_read_timeout(Some(silence)).unwrap();
        while self.socket.recv(&mut [0; 4096]).is_ok() {
            assert!(started.elapsed() < common::PATIENCE, "it goes on");
        }
        self.socket
            .set_read_timeout(Some(common::PATIENCE))
            .unwrap();
    }
}

fn settings(sandbox: &Sandbox, pool: &Path, directory: &Path, more: &str) -> PathBuf {
    let volume = format!(
        "[volumes.data]\npools = [{:?}]\ndirectory = {:?}\n{more}",
        text(pool),
        text(directory)
    );
    sandbox.file("egeria.toml", &volume)
}

#[test]
fn a_configured_volume_is_served_and_its_manager_told() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (pool, directory) = (sandbox.volume("v", "64M"), sandbox.directory("mnt"));
    let [metrics, steward_metrics] = ["metrics", "steward-metrics"].map(|name| sandbox.path(name));
    let more =
        format!("steward = \"rl\"\nmetrics = {metrics:?}\nsteward_metrics = {steward_metrics:?}\n");
    let settings = settings(&sandbox, &pool, &directory, &more);
    let with = ["--configured", "data", "--settings", text(&settings)];
    let manager = Manager::new(&sandbox);

    let mut mount = egeria([&["mount", "--foreground"][..], &with].concat());
    manager.watches(&mut mount);
    let mut mount = Background::start(&mut mount);
    manager.hears("READY=1");
    fs::write(directory.join("file"), b"served").unwrap();
    manager.hears("WATCHDOG=1");

    let beside = Sandbox::below(&sandbox.root);
    let steward_manager = Manager::new(&beside);
    let mut steward = egeria([&["steward"][..], &with].concat());
    steward.env("EGERIA_RUNTIME_DIR", sandbox.path("runtime"));
    steward_manager.watches(&mut steward);
    let mut steward = Background::start(&mut steward);
    steward_manager.hears("READY=1");
    steward_manager.hears("WATCHDOG=1");
    for (socket, family) in [
        (&metrics, "egeria_pool_free_bytes"),
        (&steward_metrics, "egeria_steward_windows"),
    ] {
        let mut stream = UnixStream::connect(socket).unwrap();
        stream
            .write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n")
            .unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        assert!(answer.contains(family), "{answer}");
    }
    kill(steward.id(), Signal::TERM);
    steward_manager.hears("STOPPING=1");
    assert!(steward.0.wait().unwrap().success());

    kill(mount.id(), Signal::TERM);
    manager.hears("STOPPING=1");
    assert!(mount.0.wait().unwrap().success());
    assert!(!mounts().contains(&directory));
    // As `ExecStopPost` does after each stop.
    run([&["umount"][..], &with].concat()).ok();
}

/// Threads of a process that are stopped while the process goes on, as if they hung.
struct Hung(Vec<i32>);

impl Hung {
    /// All but the one that tells the service manager.
    fn all_but_watchdog(pid: u32) -> Hung {
        let tasks = fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
        let others = tasks.filter(|task| {
            let name = fs::read_to_string(task.path().join("comm")).unwrap();
            name.trim_end() != "watchdog"
        });
        let ids = others.map(|task| task.file_name().to_str().unwrap().parse().unwrap());
        let ids: Vec<i32> = ids.collect();
        for id in &ids {
            trace(libc::PTRACE_SEIZE, *id);
            trace(libc::PTRACE_INTERRUPT, *id);
            let all = WaitOptions::from_bits_retain(libc::__WALL as u32);
            let (stopped, _) = waitpid(Pid::from_raw(*id), all).unwrap().unwrap();
            assert_eq!(Some(stopped), Pid::from_raw(*id));
        }
        Hung(ids)
    }
}

impl Drop for Hung {
    fn drop(&mut self) {
        for id in &self.0 {
            trace(libc::PTRACE_DETACH, *id);
        }
    }
}

fn trace(request: libc::c_uint, id: i32) {
    // SAFETY: these requests neither read nor write memory of ours.
    let failed = unsafe { libc::ptrace(request, id, 0, 0) } != 0;
    assert!(!failed, "{}", std::io::Error::last_os_error());
}

#[test]
fn a_mount_that_hangs_does_not_feed_the_watchdog() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (pool, directory) = (sandbox.volume("v", "64M"), sandbox.directory("mnt"));
    let manager = Manager::new(&sandbox);
    let mut mount = egeria(["mount", "--foreground"]);
    manager.watches(mount.arg(&pool).arg(&directory));
    let mut mount = Background::start(&mut mount);
    manager.hears("WATCHDOG=1");
    let hung = Hung::all_but_watchdog(mount.id());
    // It would be told every 50 ms.
    manager.hears_nothing_for(Duration::from_secs(2));
    drop(hung);
    manager.hears("WATCHDOG=1");
    kill(mount.id(), Signal::TERM);
    assert!(mount.0.wait().unwrap().success());
}

#[test]
fn settings_that_are_wrong_are_one_line() {
    let sandbox = Sandbox::new();
    let file = sandbox.file(
        "egeria.toml",
        "[volumes.data]\npools = [\"/p\"]\ndirectroy = \"/srv\"\n",
    );
    let settings = ["--settings", text(&file)];
    for command in [
        &["units"][..],
        &["mount", "--configured", "data"],
        &["umount", "--configured", "data"],
        &["steward", "--configured", "data"],
    ] {
        run([command, &settings].concat()).refused(1, &[text(&file), "line 3", "directroy"]);
    }
    fs::write(&file, "").unwrap();
    run([&["mount", "--configured", "data"][..], &settings].concat())
        .refused(1, &["data", "none", "[volumes.data]"]);
    fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o666)).unwrap();
    run([&["units"][..], &settings].concat()).refused(1, &["chmod go-w"]);
    run(["units", "--settings", "/nonexistent/egeria.toml"]).ok();
    run(["mount", "--configured", "data", "/pool", "/mnt"]).refused(2, &["--configured"]);
    run(["steward", "--configured", "data", "/pool"]).refused(2, &["--configured"]);
}

/// Directives of a unit: key and value.
fn directives(path: &Path) -> Vec<(String, String)> {
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split_once('='))
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .collect()
}

const UNITS: [&str; 3] = [
    "egeria-volume@.service",
    "egeria-steward@.service",
    "egeria-steward.service",
];

#[test]
fn units_of_the_package_start_commands_as_they_are() {
    let sandbox = Sandbox::new();
    let file = settings(&sandbox, Path::new("/no/pool"), Path::new("/no/mnt"), "");
    let mut tried = 0;
    for unit in UNITS {
        for (key, value) in directives(&packaging().join("systemd").join(unit)) {
            if !key.starts_with("Exec") {
                continue;
            }
            let mut words = value.trim_start_matches('-').split(' ');
            assert_eq!(words.next(), Some("/usr/bin/egeria"), "{unit}");
            let words = words.map(|word| word.replace("%i", "data"));
            let words = words.chain(["--settings".to_owned(), text(&file).to_owned()]);
            let ended = run(words);
            assert_ne!(ended.status, 2, "{unit}: {value}: {}", ended.stderr);
            tried += 1;
        }
    }
    assert_eq!(tried, 4);
}

#[test]
fn the_settings_that_the_package_brings_are_understood() {
    let example = fs::read_to_string(packaging().join("egeria.toml")).unwrap();
    let sandbox = Sandbox::new();
    let shipped = sandbox.file("shipped.toml", &example);
    assert!(
        run(["units", "--settings", text(&shipped)])
            .ok()
            .stdout
            .contains("no volume")
    );
    // Every line of the example means something.
    let all: Vec<&str> = example
        .lines()
        .map(|line| match line.strip_prefix('#') {
            Some(setting) if !setting.starts_with(' ') => setting,
            _ => line,
        })
        .collect();
    let all = sandbox.file("all.toml", &all.join("\n"));
    let listed = run(["units", "--json", "--settings", text(&all)])
        .ok()
        .json();
    let volume = &listed["volumes"][0];
    assert_eq!(volume["unit"], "egeria-volume@data.service");
    assert_eq!(volume["steward_unit"], "egeria-steward@data.service");
    assert_eq!(volume["user"], "postgres");
    assert_eq!(listed["steward"]["unit"], "egeria-steward.service");
}

#[test]
fn a_steward_without_a_volume_is_listed() {
    let sandbox = Sandbox::new();
    let listed = |text: &str| {
        let settings = sandbox.file("egeria.toml", text);
        run(["units", "--settings", settings.to_str().unwrap()])
            .ok()
            .stdout
    };
    let all = listed("[steward]\nall = true\n");
    assert!(
        all.contains("steward of all processes, policy all: egeria-steward.service"),
        "{all}"
    );
    assert!(!all.contains("no volume"), "{all}");
    let group = listed("[steward]\ncgroup = \"system.slice/a.service\"\npolicy = \"rl\"\n");
    assert!(
        group.contains("system.slice/a.service, policy rl"),
        "{group}"
    );
}

#[test]
fn units_of_volumes_are_written_and_systemd_takes_them() {
    let sandbox = Sandbox::new();
    let settings = sandbox.file(
        "egeria.toml",
        "[volumes.data]\npools = [\"/mnt/a b/p%0\", \"/mnt/1\"]\ndirectory = \"/srv/data\"\nsteward = \"all\"\nmetrics = 9464\nsteward_metrics = 9465\n\
         [volumes.log]\npools = [\"/mnt/2\"]\ndirectory = \"/srv/log\"\nuser = \"root\"\nboot = false\nmetrics = 9466\n",
    );
    let out = sandbox.directory("units");
    run(["units", "--out", text(&out), "--settings", text(&settings)]).ok();
    let wanted = |by: &str| -> BTreeSet<String> {
        let entries = fs::read_dir(out.join(format!("{by}.wants")));
        let entries = entries.into_iter().flatten().flatten();
        entries
            .map(|entry| entry.file_name().into_string().unwrap())
            .collect()
    };
    let one = |name: &str| BTreeSet::from([name.to_owned()]);
    assert_eq!(
        wanted("multi-user.target"),
        one("egeria-volume@data.service")
    );
    assert_eq!(
        wanted("egeria-volume@data.service"),
        one("egeria-steward@data.service")
    );
    assert_eq!(wanted("egeria-volume@log.service"), BTreeSet::new());
    let data =
        fs::read_to_string(out.join("egeria-volume@data.service.d/50-egeria-toml.conf")).unwrap();
    assert!(
        data.contains("RequiresMountsFor=\"/mnt/a b/p%%0\" \"/mnt/1\" \"/srv/data\"\n"),
        "{data}"
    );
    let log =
        fs::read_to_string(out.join("egeria-volume@log.service.d/50-egeria-toml.conf")).unwrap();
    assert!(
        log.contains("User=root\n") && log.contains("NoNewPrivileges=no\n"),
        "{log}"
    );
    // A port needs the loopback, and a list of address families stays away where there is none.
    assert!(data.contains("AddressFamilies=AF_INET AF_INET6\nIPAddressAllow=localhost\n"));
    assert!(
        log.ends_with("[Service]\nIPAddressAllow=localhost\n"),
        "{log}"
    );
    verify(&out);
}

/// What systemd says of the units of the package with these settings; nothing, where they are right.
fn verify(out: &Path) {
    for unit in UNITS {
        let unit_text = fs::read_to_string(packaging().join("systemd").join(unit)).unwrap();
        // It wants to see the programs.
        let here = unit_text.replace("/usr/bin/egeria", env!("CARGO_BIN_EXE_egeria"));
        let here = here.replace("Documentation=man:", "Documentation=https://localhost/");
        let here = here.replace(" man:", " https://localhost/");
        fs::write(out.join(unit), here).unwrap();
    }
    let units = [
        "egeria-volume@data.service",
        "egeria-volume@log.service",
        "egeria-steward@data.service",
        "egeria-steward.service",
    ];
    let verified = Command::new("systemd-analyze")
        .args(["verify", "--recursive-errors=no", "--man=no"])
        .args(units.map(|unit| out.join(unit)))
        .stdin(Stdio::null())
        .output();
    let Ok(verified) = verified else {
        skip("there is no systemd-analyze here");
        return;
    };
    let said = String::from_utf8_lossy(&verified.stderr);
    let ours: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("egeria"))
        .collect();
    assert!(verified.status.success() && ours.is_empty(), "{said}");
}

#[test]
fn every_installed_file_is_in_exactly_one_package() {
    let mut named = BTreeSet::new();
    for package in ["egeria", "egeria-lab", "egeria-torture"] {
        let list = packaging().join(format!("debian/{package}.install"));
        for line in fs::read_to_string(list).unwrap().lines() {
            assert!(named.insert(line.to_owned()), "{line} is named twice");
        }
    }
    // What the install script puts below lib/ and bin/, by its own text.
    let script = fs::read_to_string(packaging().join("../scripts/install")).unwrap();
    let mut installed = Vec::new();
    for line in script.lines().map(str::trim) {
        if let Some((_, programs)) = line.split_once("|| with_workers ") {
            let (program, workers) = programs.split_once(' ').unwrap();
            installed.push(format!("bin/{program}"));
            let workers = workers.split(' ');
            installed.extend(workers.map(|worker| format!("lib/egeria/egeria-{worker}")));
        } else if let Some((_, target)) = line.rsplit_once("\"$prefix/") {
            let target = target.trim_end_matches('"');
            let is_file = !target.contains('$') && !target.contains("man1");
            if line.starts_with("install -D") && is_file && !target.ends_with("lib/egeria") {
                installed.push(target.to_owned());
            }
        }
    }
    for target in &installed {
        let is_named = named.contains(&format!("usr/{target}"));
        assert!(is_named, "{target} is in no package");
    }
    let found = installed.len();
    assert!(found >= 9, "{found}");
    for unit in fs::read_dir(packaging().join("systemd")).unwrap().flatten() {
        let name = unit.file_name().into_string().unwrap();
        assert!(
            named.iter().any(|path| path.ends_with(&name)),
            "{name} is in no package"
        );
    }
}

#[test]
fn every_manual_page_is_in_exactly_one_package() {
    let sandbox = Sandbox::new();
    let pages = sandbox.path("man");
    run(["man", "--out", pages.to_str().unwrap()]).ok();
    let mut patterns = Vec::new();
    for package in ["egeria", "egeria-lab", "egeria-torture"] {
        let list = packaging().join(format!("debian/{package}.install"));
        let list = fs::read_to_string(list).unwrap();
        let of_pages = list
            .lines()
            .filter_map(|line| line.strip_prefix("usr/share/man/man1/"));
        patterns.extend(of_pages.map(str::to_owned));
    }
    for page in fs::read_dir(pages).unwrap().flatten() {
        let name = page.file_name().into_string().unwrap();
        // Debian's tools match names as a shell does.
        let matches = |pattern: &&String| {
            let script = "case $1 in $2) ;; *) exit 1 ;; esac";
            let mut shell = Command::new("sh");
            let shell = shell.args(["-c", script, "sh", &name]).arg(pattern);
            shell.status().unwrap().success()
        };
        let packages = patterns.iter().filter(matches).count();
        assert_eq!(packages, 1, "{name} in {patterns:?}");
    }
}
