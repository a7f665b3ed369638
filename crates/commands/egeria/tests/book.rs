//! The pages of the book: what they show is what the commands print.

use crate::common;

use std::path::PathBuf;

use common::{Sandbox, run};

const PAGE: &str = include_str!("../../../../docs/how-to/size-cache-and-log.md");
/// The model may change without a new page, within this.
const TOLERANCE: f64 = 0.1;

/// Commands that the page shows, each with the lines below it.
fn shown() -> Vec<(&'static str, Vec<&'static str>)> {
    let mut shown: Vec<(&str, Vec<&str>)> = Vec::new();
    let blocks = PAGE.split("```").skip(1).step_by(2);
    for line in blocks.flat_map(str::lines) {
        if let Some(command) = line.strip_prefix("$ egeria ") {
            shown.push((command, Vec::new()));
        } else if let Some((_, lines)) = shown.last_mut() {
            lines.push(line);
        }
    }
    shown
}

/// System, threads and operations/s of a line, if it is such a line; all threads where the line is of the whole system.
fn figures(line: &str) -> Option<(String, f64)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [system, count, name, operations_s, ..] = words[..] else {
        return None;
    };
    let beside = name.strip_suffix('x').map(str::parse::<f64>);
    if let Some(Ok(_)) = beside {
        return Some((format!("{system}, all"), count.parse().ok()?));
    }
    count.parse::<u32>().ok()?;
    Some((
        format!("{system} {count} {name}"),
        operations_s.parse().ok()?,
    ))
}

#[test]
fn the_sizing_page_shows_what_the_commands_print() {
    let book = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../docs/how-to");
    let sandbox = Sandbox::new();
    let page = sandbox.path("what-if.html");
    let mut compared = 0;
    for (command, lines) in shown() {
        if !command.starts_with("sim ") || lines.is_empty() {
            continue;
        }
        let path = book.join("cache-and-log.toml");
        let command = command.replace("cache-and-log.toml", path.to_str().unwrap());
        let command = command.replace("what-if.html", page.to_str().unwrap());
        let printed = run(command.split(' ')).ok().stdout;
        for (what, operations_s) in lines.iter().filter_map(|line| figures(line)) {
            let mut all = printed.lines().filter_map(figures);
            let (_, now) = all.find(|(name, _)| *name == what).expect(&what);
            assert!(
                (now / operations_s - 1.0).abs() < TOLERANCE,
                "{command}: {what}: {now} instead of {operations_s}"
            );
            compared += 1;
        }
    }
    assert_eq!(compared, 14);
}

#[test]
fn settings_page_names_every_setting() {
    let page = include_str!("../../../../docs/reference/settings.md");
    let help = run(["replay", "--help"]).ok().stdout;
    let (_, settings) = help.split_once("docs/reference/settings.md):").unwrap();
    let names = settings
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().next());
    let absent: Vec<&str> = names
        .filter(|name| !page.contains(&format!("`{name}`")))
        .collect();
    assert!(absent.is_empty(), "{absent:?}");
}
