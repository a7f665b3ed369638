//! What a machine of one node gets: one line, and what works there.

use crate::common;

use std::fs::File;
use std::process::{Command, Stdio};

use common::{Background, Sandbox, egeria, eventually, kill, run};
use egeria_harness::testing::skip;
use egeria_machine::Machine;
use rustix::process::Signal;

const LINE: &str = "This machine has one node: there is nothing to place here.";

fn has_one_node() -> bool {
    let has = Machine::detect().unwrap().nodes.len() == 1;
    if !has {
        skip("this machine has several nodes");
    }
    has
}

#[test]
fn where_and_top_say_so_in_a_line() {
    if !has_one_node() {
        return;
    }
    let sandbox = Sandbox::new();
    let file = sandbox.file("file", "content");
    let text = run(["where", file.to_str().unwrap()]).ok().stdout;
    assert_eq!(text.matches(LINE).count(), 1, "{text}");
    let own = std::process::id().to_string();
    let top = ["top", "--pid", &own, "--window", "100"];
    let text = run(top.into_iter().chain(["--once"])).ok().stdout;
    assert_eq!(text.matches(LINE).count(), 1, "{text}");
    let document = run(top.into_iter().chain(["--json"])).ok().json();
    assert!(document["note"].as_str().unwrap().starts_with(LINE));
}

#[test]
fn a_steward_says_so_once() {
    if !has_one_node() {
        return;
    }
    let sandbox = Sandbox::new();
    let busy = Background::start(Command::new("sleep").arg("600"));
    let log = sandbox.path("stderr");
    let mut steward = egeria(["steward", "--window", "20", "--pid", &busy.id().to_string()]);
    steward
        .env("EGERIA_RUNTIME_DIR", sandbox.path("runtime"))
        .stdout(Stdio::null())
        .stderr(File::create(&log).unwrap());
    let mut steward = Background(steward.spawn().unwrap());
    let said = || std::fs::read_to_string(&log).unwrap_or_default();
    eventually("a steward", || said().contains("looking after threads"));
    kill(steward.id(), Signal::INT);
    assert!(steward.0.wait().unwrap().success());
    let said = said();
    assert_eq!(said.matches(LINE).count(), 1, "{said}");
    assert!(!said.contains("is off"), "{said}");
}
