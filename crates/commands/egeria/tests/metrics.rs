//! Metrics as Prometheus asks for them.

use crate::common;
use egeria_harness::testing::skip;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, Stdio};
use std::{fs, net};

use common::{Background, Sandbox, can_mount, egeria, eventually, kill, run};
use rustix::process::Signal;

fn ask(mut stream: impl Read + Write, host: &str, accept: &str) -> String {
    let request = format!("GET /metrics HTTP/1.1\r\nHost: {host}\r\nAccept: {accept}\r\n\r\n");
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[track_caller]
fn body(answer: &str) -> &str {
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
    answer.split_once("\r\n\r\n").unwrap().1
}

#[track_caller]
fn value(text: &str, series: &str) -> f64 {
    let line = text.lines().find(|line| line.starts_with(series));
    let line = line.unwrap_or_else(|| panic!("no {series} in {text}"));
    line.rsplit_once(' ').unwrap().1.parse().unwrap()
}

/// Debian's check of names, types and help.
fn promtool_accepts(text: &str) {
    let tool = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let Ok(mut tool) = tool else {
        skip("promtool is missing; apt-get install prometheus");
        return;
    };
    tool.stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    let ended = tool.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&ended.stderr).into_owned();
    assert!(ended.status.success() && said.is_empty(), "{said}\n{text}");
}

/// Every family is in the manual, and the manual names no other.
fn families(text: &str) -> Vec<String> {
    let types = text.lines().filter_map(|line| line.strip_prefix("# TYPE "));
    let names = types.map(|line| line.split(' ').next().unwrap().to_owned());
    names.collect()
}

fn documented() -> Vec<String> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../docs/reference/metrics.md");
    let page = fs::read_to_string(page).unwrap();
    let rows = page
        .lines()
        .filter_map(|line| line.strip_prefix("| `egeria_"));
    rows.map(|row| format!("egeria_{}", row.split('`').next().unwrap()))
        .collect()
}

#[test]
fn a_mount_and_its_steward_serve_what_the_manual_names() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (pool, directory) = (sandbox.volume("v", "64M"), sandbox.directory("mnt"));
    let socket = sandbox.path("metrics");
    let mut mount = egeria(["mount", "--limit", "2", "--metrics"]);
    mount
        .arg(&socket)
        .arg("--foreground")
        .arg(&pool)
        .arg(&directory);
    let mut mount = Background::start(&mut mount);
    eventually("the mount answers", || {
        common::mounts().contains(&directory)
    });
    fs::write(directory.join("file"), vec![7; 1 << 20]).unwrap();

    let connect = || UnixStream::connect(&socket).unwrap();
    let mode = fs::metadata(&socket).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut answer = String::new();
    const KINDS: [&str; 3] = ["write", "create", "lookup"];
    // A request is counted after it was answered, each by the thread that served it.
    eventually("all requests are counted", || {
        answer = ask(connect(), "localhost", "text/plain");
        let name = "egeria_mount_request_duration_seconds_count{";
        let counts = body(&answer).lines().filter(|line| line.starts_with(name));
        let counted: Vec<&str> = counts.filter(|line| !line.ends_with(" 0")).collect();
        let is_counted = |kind: &str| {
            let label = format!("kind=\"{kind}\"");
            counted.iter().any(|line| line.contains(&label))
        };
        KINDS.into_iter().all(is_counted)
    });
    let text = body(&answer);
    assert!(value(text, "egeria_requests_total{volume=") > 0.0);
    let written = text
        .lines()
        .filter(|line| line.starts_with("egeria_written_bytes_total{"));
    let written: f64 = written
        .map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap())
        .sum();
    assert!(written >= f64::from(1 << 20), "{text}");
    assert_eq!(value(text, "egeria_admission_limit_threads{"), 2.0);
    let of = |name: &str, label: &str| -> f64 {
        let lines = text.lines().filter(|line| line.starts_with(name));
        let lines = lines.filter(|line| line.contains(label));
        lines
            .map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap())
            .sum()
    };
    let moved = of("egeria_read_bytes_total{", "") + written;
    let local = of("egeria_accessed_bytes_total{", "place=\"local\"");
    let remote = of("egeria_accessed_bytes_total{", "place=\"remote\"");
    assert_eq!(local + remote, moved, "{text}");
    for kind in KINDS {
        let label = format!("kind=\"{kind}\"");
        let [count, sum, all] = ["count", "sum", "bucket"].map(|part| {
            let le = if part == "bucket" { "le=\"+Inf\"" } else { "" };
            let name = format!("egeria_mount_request_duration_seconds_{part}{{");
            let lines = text.lines().filter(|line| {
                line.starts_with(&name) && line.contains(&label) && line.contains(le)
            });
            lines
                .map(|line| line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap())
                .sum::<f64>()
        });
        assert!(count > 0.0 && sum > 0.0 && count == all, "{kind}: {text}");
    }
    promtool_accepts(text);
    let answer = ask(connect(), "localhost", "application/openmetrics-text");
    assert!(body(&answer).ends_with("# EOF\n"));

    let steward_socket = sandbox.path("steward-metrics");
    let mut steward = egeria(["steward", "--window", "20", "--policy", "rl", "--metrics"]);
    steward.arg(&steward_socket).arg(&pool);
    steward.env("EGERIA_RUNTIME_DIR", sandbox.path("runtime"));
    let mut steward = Background::start(&mut steward);
    let mut answer = String::new();
    eventually("the steward has looked", || {
        let Ok(stream) = UnixStream::connect(&steward_socket) else {
            return false;
        };
        answer = ask(stream, "localhost", "");
        value(body(&answer), "egeria_steward_windows_total") > 0.0
    });
    promtool_accepts(body(&answer));
    let mut served = [families(text), families(body(&answer))].concat();
    let mut named = documented();
    served.sort();
    named.sort();
    assert_eq!(served, named);

    kill(steward.id(), Signal::TERM);
    assert!(steward.0.wait().unwrap().success());
    kill(mount.id(), Signal::TERM);
    assert!(mount.0.wait().unwrap().success());
    assert!(!socket.exists() && !steward_socket.exists());
}

#[test]
fn a_page_with_another_host_gets_nothing() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (pool, directory) = (sandbox.volume("v", "64M"), sandbox.directory("mnt"));
    let free = TcpListener::bind((net::Ipv4Addr::LOCALHOST, 0)).unwrap();
    let taken = free.local_addr().unwrap();
    let mount = |address: &str| {
        let mut mount = egeria(["mount", "--metrics", address]);
        mount.arg(&pool).arg(&directory);
        common::finish(mount)
    };
    mount(&taken.to_string()).refused(1, &["cannot serve metrics on", "choose another"]);
    assert!(!common::mounts().contains(&directory));
    mount("0.0.0.0:9464").refused(2, &["other machines reach"]);
    drop(free);
    mount(&taken.to_string()).ok();
    let connect = || TcpStream::connect(taken).unwrap();
    body(&ask(connect(), &taken.to_string(), ""));
    let refused = ask(connect(), "evil.example", "");
    assert!(refused.starts_with("HTTP/1.1 403 "), "{refused}");
    assert!(!refused.contains("egeria_"), "{refused}");
    run(["umount".as_ref(), directory.as_os_str()]).ok();
}

#[test]
fn every_eio_of_a_mount_is_counted_with_its_cause() {
    use std::os::unix::fs::FileExt;
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (pool, directory) = (sandbox.volume("v", "16M"), sandbox.directory("mnt"));
    let socket = sandbox.path("metrics");
    let mount = || {
        let mut mount = egeria(["mount", "--metrics"]);
        mount.arg(&socket).arg(&pool).arg(&directory);
        common::finish(mount).ok();
    };
    let unmount = || run(["umount".as_ref(), directory.as_os_str()]).ok();
    let errors = |cause: &str| {
        let stream = UnixStream::connect(&socket).unwrap();
        let answer = ask(stream, "localhost", "");
        let series = |name: &str| {
            let lines = body(&answer).lines();
            let line = lines.filter(|line| line.starts_with(name));
            let mut line = line.filter(|line| line.contains(cause));
            let line = line.next().unwrap_or_else(|| panic!("{name}: {answer}"));
            line.rsplit_once(' ').unwrap().1.parse::<f64>().unwrap()
        };
        (
            series("egeria_mount_errors_total{"),
            value(body(&answer), "egeria_checksum_failures_total"),
        )
    };
    mount();
    let flags = rustix::fs::XattrFlags::empty();
    rustix::fs::setxattr(&directory, "user.egeria.checksum", b"crc32c", flags).unwrap();
    let bytes = b"bytes that are nowhere else".repeat(10);
    fs::write(directory.join("file"), &bytes).unwrap();
    assert_eq!(errors("cause=\"checksum\""), (0.0, 0.0));
    unmount();
    let damaged = ["v.0", "v.1"].map(|pool| common::damage(&sandbox.path(pool), &bytes));
    assert!(damaged.contains(&true));
    mount();
    let file = fs::File::open(directory.join("file")).unwrap();
    for _ in 0..3 {
        assert_eq!(
            file.read_at(&mut [0; 100], 7).unwrap_err().raw_os_error(),
            Some(5)
        );
    }
    drop(file);
    // An answer is counted after it was sent.
    eventually("three errors are counted", || {
        errors("cause=\"checksum\"").0 >= 3.0
    });
    let (counted, failures) = errors("cause=\"checksum\"");
    // The kernel asks once more where it wanted to read ahead.
    let is_counted = (3.0..=6.0).contains(&counted);
    assert!(is_counted && failures >= counted, "{counted} {failures}");
    assert_eq!(errors("cause=\"medium\"").0, 0.0);
    unmount();
}
