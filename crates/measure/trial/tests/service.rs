//! Blocks of a service: what is measured, and what ends the trial.

use std::process::Command;
use std::time::Duration;

use egeria_child::Group;
use egeria_proc::{Scope, task};
use egeria_trial::metric::Metric;
use egeria_trial::service::Service;
use egeria_trial::trial::Subject;

const BLOCK: Duration = Duration::from_millis(300);

fn started(script: &str) -> Group {
    let group = Group::start(Command::new("sh").args(["-c", script])).unwrap();
    // It may still be a copy of this process.
    std::thread::sleep(Duration::from_millis(100));
    group
}

/// The value of one block, or what is wrong with it.
fn value(group: &mut Group, metric: Option<&str>) -> Result<f64, String> {
    let key = task::process(group.child().id()).ok_or("gone already")?;
    let sides = vec![("off".to_owned(), None)];
    let named = ("process 1".to_owned(), Scope::Trees(vec![key]));
    let mut service = Service::new(named, sides, (BLOCK, BLOCK), &|_, _| ());
    service.metric = metric.map(|text| Metric::parse(text, None).unwrap());
    service.run(0).map_err(|error| error.to_string())
}

#[test]
fn bytes_of_a_service_are_counted_per_second() {
    let mut busy = started("exec dd if=/dev/zero of=/dev/null bs=64k");
    let bytes_s = value(&mut busy, None).unwrap();
    assert!(bytes_s > 1e6, "{bytes_s}");
    assert_eq!(value(&mut busy, Some("echo 5")), Ok(5.0));
}

#[test]
fn a_service_that_does_nothing_or_ends_is_one_line() {
    let line = value(&mut started("exec sleep 100"), None).unwrap_err();
    assert!(
        line.contains("neither reads nor writes") && line.contains("--metric"),
        "{line}"
    );
    for seconds in ["0.3", "0.6"] {
        let line = value(
            &mut started(&format!("exec sleep {seconds}")),
            Some("echo 5"),
        );
        let line = line.unwrap_err();
        assert!(
            line.contains("process 1 ended or was started again"),
            "{line}"
        );
    }
}
