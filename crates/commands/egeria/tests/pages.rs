//! Commands on the pages of the book and in the README: each is understood as it stands there.

use crate::common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::run;
use egeria_harness::testing::skip;

/// Words after which another command begins.
const BETWEEN: [&str; 6] = [";", "&&", "||", "|", "&", ">"];

fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// The README and all pages of the book, with their paths.
fn pages() -> Vec<(PathBuf, String)> {
    let docs = tree().join("docs");
    let parts = ["", "tutorial", "how-to", "reference", "explanation"];
    let files = parts
        .iter()
        .flat_map(|part| fs::read_dir(docs.join(part)).unwrap().flatten())
        .map(|entry| entry.path());
    let is_page = |path: &PathBuf| path.extension().is_some_and(|end| end == "md");
    let all = files.filter(is_page).chain([tree().join("README.md")]);
    let mut pages: Vec<(PathBuf, String)> = all
        .map(|path| (path.clone(), fs::read_to_string(path).unwrap()))
        .collect();
    pages.sort();
    pages
}

/// Lines of a page's blocks of commands. A quoted argument, and a line with `\` at its end, go on in the next.
fn lines(page: &str) -> Vec<String> {
    let mut lines = Vec::new();
    for block in page.split("```").skip(1).step_by(2) {
        let (language, block) = block.split_once('\n').unwrap_or(("", block));
        let is_shell = ["", "sh", "ini"].contains(&language.trim());
        let mut open = String::new();
        for line in block.lines() {
            // Of a unit, what it starts.
            let typed = match (language, line.strip_prefix("$ ")) {
                ("ini", _) => line.split_once('=').map_or("", |(_, value)| value),
                (_, Some(command)) => command,
                (_, None) if is_shell || !open.is_empty() => line,
                _ => continue,
            };
            open.push_str(typed.strip_suffix('\\').unwrap_or(typed));
            open.push('\n');
            let is_whole = !typed.ends_with('\\') && shlex::split(&open).is_some();
            if is_whole {
                lines.push(std::mem::take(&mut open));
            }
        }
    }
    lines
}

/// A line with `1`, as a process id, for each `$(…)`.
fn line_without_substitutions(line: &str) -> String {
    let mut parts = line.split("$(");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        text.push('1');
        text.push_str(part.split_once(')').map_or("", |(_, rest)| rest));
    }
    text
}

/// Arguments of each `egeria` in a line.
fn commands(line: &str) -> Vec<Vec<String>> {
    commands_of("egeria", line)
}

/// Arguments of each call of a program in a line.
fn commands_of(program: &str, line: &str) -> Vec<Vec<String>> {
    let words = shlex::split(&line_without_substitutions(line)).unwrap_or_default();
    let mut commands: Vec<Vec<String>> = Vec::new();
    let mut is_inside = false;
    let mut before = String::new();
    for word in words {
        let is_command = word == program || word.ends_with(&format!("bin/{program}"));
        // An option's value may be that word, and so may a package.
        let is_value = before.starts_with('-') && before != "--" && !before.ends_with(';');
        if is_command && !is_inside && !is_value && before != "install" {
            commands.push(Vec::new());
            is_inside = true;
        } else if BETWEEN.contains(&word.as_str()) || word.starts_with('>') {
            is_inside = false;
        } else if let Some(last) = commands.last_mut().filter(|_| is_inside) {
            is_inside = !word.ends_with(';');
            last.push(word.trim_end_matches(';').to_owned());
        }
        before = word;
    }
    commands
}

/// Asks for help after all that a command line says of the command itself, so that it is read and nothing is done.
fn why_refused(arguments: &[String]) -> Option<String> {
    let end = arguments.iter().position(|word| word == "--");
    let own = &arguments[..end.unwrap_or(arguments.len())];
    let asked = run(own.iter().map(String::as_str).chain(["--help"]));
    (asked.status != 0).then_some(asked.stderr)
}

#[test]
fn commands_on_all_pages_are_understood() {
    let mut wrong = Vec::new();
    let mut count = 0;
    for (path, page) in pages() {
        // The policy that a reader of that page writes.
        let page = page.replace("follow_writes", "full");
        for line in lines(&page) {
            for arguments in commands(&line) {
                count += 1;
                if let Some(why) = why_refused(&arguments) {
                    wrong.push(format!("{}: {}: {why}", path.display(), line.trim()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(count > 120, "only {count} commands were found");
}

/// Tools of others that read all of their command line with this at its end, and do nothing.
const TOOLS: [(&str, &str); 4] = [
    ("fio", "--parse-only"),
    ("systemctl", "--help"),
    ("taskset", "--help"),
    ("curl", "--help"),
];

/// Calls of a tool in a line, also in one that `sh -c` gets. What they name need not be here.
fn calls_of(tool: &str, line: &str) -> Vec<Vec<String>> {
    let mut calls = commands_of(tool, line);
    for word in shlex::split(line).unwrap_or_default() {
        if word.contains(char::is_whitespace) {
            calls.extend(calls_of(tool, &word));
        }
    }
    for call in &mut calls {
        // Job files of fio's would be opened, and directories looked for.
        call.retain(|word| tool != "fio" || word.starts_with("--"));
        for word in call {
            *word = word.replace("$EGERIA_MOUNT", "/tmp");
        }
    }
    calls
}

/// Why a tool does not understand its arguments.
fn why_tool_refuses((tool, asking): (&str, &str), arguments: &[String]) -> Option<String> {
    let asked = Command::new(tool).args(arguments).arg(asking).output();
    let asked = asked.unwrap();
    let stderr = String::from_utf8_lossy(&asked.stderr).into_owned();
    (!asked.status.success()).then_some(stderr)
}

#[test]
fn other_tools_understand_their_commands_on_pages() {
    let is_here = |tool: &str| Command::new(tool).arg("--version").output().is_ok();
    let here: Vec<_> = TOOLS.into_iter().filter(|tool| is_here(tool.0)).collect();
    if here.is_empty() {
        skip("none of the tools is installed");
        return;
    }
    let mut wrong = Vec::new();
    for (path, page) in pages() {
        for line in lines(&page) {
            for tool in &here {
                for call in calls_of(tool.0, &line) {
                    if let Some(why) = why_tool_refuses(*tool, &call) {
                        wrong.push(format!("{}: {}: {why}", path.display(), line.trim()));
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_wrong_option_of_another_tool_is_found() {
    let page = "```sh\negeria run -- sh -c 'x && fio --name=w --no_such=1 job.fio'\n```\n";
    let found = calls_of("fio", &lines(page)[0]);
    assert_eq!(found, [["--name=w", "--no_such=1"]]);
    if Command::new("fio").arg("--version").output().is_err() {
        skip("there is no fio");
        return;
    }
    let why = why_tool_refuses(("fio", "--parse-only"), &found[0]);
    assert!(why.is_some_and(|why| why.contains("no_such")));
}

#[test]
fn an_unknown_option_on_a_page_is_found() {
    let page = "```sh\nsudo egeria top --all; egeria run --nosuch -- sh -c 'x\ny'   # why\n```\n";
    let found: Vec<Vec<String>> = lines(page).iter().flat_map(|line| commands(line)).collect();
    assert_eq!(found.len(), 2, "{found:?}");
    assert_eq!(found[0], ["top", "--all"]);
    assert_eq!(why_refused(&found[0]), None);
    assert!(why_refused(&found[1]).unwrap().contains("--nosuch"));
}

/// The first sentence after the headings of a text, in one line.
fn first_sentence(text: &str) -> String {
    let body = text.lines().filter(|line| !line.starts_with('#'));
    let words = body.flat_map(str::split_whitespace).collect::<Vec<_>>();
    let joined = words.join(" ");
    joined
        .split_once(". ")
        .map_or(joined.as_str(), |(first, _)| first)
        .to_owned()
}

#[test]
fn readme_help_package_and_book_begin_alike() {
    let read = |path: &str| fs::read_to_string(tree().join(path)).unwrap();
    let readme = first_sentence(&read("README.md"));
    assert!(
        readme.starts_with("Egeria ") && readme.len() < 120,
        "{readme}"
    );
    assert_eq!(first_sentence(&read("docs/README.md")), readme);
    let help = run(["--help"]).ok().stdout;
    let about = help.split("\n\n").next().unwrap();
    assert_eq!(first_sentence(about).trim_end_matches('.'), readme);
    let control = read("packaging/debian/control");
    let package = control
        .split("\n\n")
        .find(|part| part.starts_with("Package: egeria\n"));
    let (_, description) = package.unwrap().split_once("\nDescription: ").unwrap();
    let (_, long) = description.split_once('\n').unwrap();
    assert_eq!(first_sentence(long), readme);
}
