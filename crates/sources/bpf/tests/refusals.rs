//! One line says why nothing can be counted: no rights, or no means.

use egeria_harness::testing::{is_root, skip};
use std::process::Command;

use egeria_bpf::{BpfError, FileCounter};

const INSIDE: &str = "EGERIA_BPF_INSIDE";

fn begin() -> Result<(), BpfError> {
    FileCounter::begin().map(drop)
}

#[track_caller]
fn is_one_line(error: &BpfError, words: &str) {
    let text = error.to_string();
    assert!(text.contains(words) && !text.contains('\n'), "{text}");
}

#[test]
fn without_capabilities_nothing_is_loaded() {
    if !is_root() {
        return;
    }
    let asked = std::thread::spawn(|| {
        let nobody = rustix::process::Uid::from_raw(65_534);
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody).unwrap();
        begin()
    });
    let error = asked.join().unwrap().expect_err("nobody may not");
    if matches!(error, BpfError::Cpu | BpfError::Namespace) {
        skip(error);
        return;
    }
    assert!(matches!(error, BpfError::NotAllowed), "{error}");
    is_one_line(&error, "CAP_BPF");
}

#[test]
fn in_a_namespace_as_of_a_container_the_host_is_named() {
    if std::env::var_os(INSIDE).is_some() {
        let error = begin().expect_err("ids of another namespace");
        is_one_line(&error, "run on the host");
        assert!(matches!(error, BpfError::Namespace), "{error}");
        return;
    }
    if !is_root() {
        return;
    }
    let test = "in_a_namespace_as_of_a_container_the_host_is_named";
    let inside = Command::new("unshare")
        .args(["--pid", "--fork", "--mount-proc"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(INSIDE, "1")
        .output();
    match inside {
        Err(error) => skip(format_args!("unshare: {error}")),
        Ok(output) if String::from_utf8_lossy(&output.stderr).contains("unshare failed") => {
            skip("no namespaces here");
        }
        Ok(output) => assert!(output.status.success(), "{output:?}"),
    }
}
