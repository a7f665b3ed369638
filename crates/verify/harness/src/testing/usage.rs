//! What every program's command line has: help with examples, completions, manual pages.

use std::path::Path;

use super::Ended;

/// A program: its name, how it is run, and its commands that only group others.
pub struct Program<'a> {
    /// The name.
    pub name: &'a str,
    /// Runs it with these arguments to its end.
    pub run: fn(&[&str]) -> Ended,
    /// Commands without an example of their own.
    pub groups: &'a [&'a str],
}

/// The commands that a help lists.
///
/// # Panics
/// When it lists none.
pub fn commands_of(help: &str) -> Vec<&str> {
    let (_, list) = help.split_once("\nCommands:\n").expect("commands");
    let names = list.lines().take_while(|line| !line.is_empty());
    let names = names.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    // Longer descriptions go on in lines that begin with more blanks.
    let names: Vec<&str> = names.filter(|name| !["", "help"].contains(name)).collect();
    assert!(!names.is_empty(), "{help}");
    names
}

impl Program<'_> {
    fn commands(&self) -> Vec<String> {
        let help = (self.run)(&["--help"]).ok().stdout;
        let commands = commands_of(&help).into_iter().map(str::to_owned);
        commands.collect()
    }

    /// Asserts that every command has help and takes `--json`.
    ///
    /// # Panics
    /// When one does not.
    pub fn assert_help(&self) {
        for command in &self.commands() {
            let help = (self.run)(&[command, "--help"]).ok();
            assert!(help.stdout.contains("--json"), "{command}");
            let usage = format!("Usage: {} {command}", self.name);
            assert!(help.stdout.contains(&usage), "{command}: {}", help.stdout);
            assert_eq!(help.stderr, "", "{command}");
        }
    }

    /// Asserts that help has examples, and that these fit a terminal.
    ///
    /// # Panics
    /// When they do not.
    pub fn assert_examples(&self) {
        let all = self.commands();
        let is_group = |command: &&String| self.groups.contains(&command.as_str());
        for command in all.iter().filter(|command| !is_group(command)) {
            let help = (self.run)(&[command, "--help"]).ok().stdout;
            let examples = help.split("Example").nth(1);
            let examples = examples.unwrap_or_else(|| panic!("{command} has no example"));
            assert!(examples.contains(&format!("{} ", self.name)), "{command}");
            for line in examples.lines() {
                assert!(line.chars().count() <= 80, "{command}: {line}");
            }
        }
    }

    /// Asserts that completions of every shell know every command.
    ///
    /// # Panics
    /// When they do not.
    pub fn assert_completions(&self) {
        let commands = self.commands();
        for shell in ["bash", "zsh", "fish"] {
            let script = (self.run)(&["completions", shell]).ok().stdout;
            for command in &commands {
                assert!(script.contains(command), "{shell}: {command}");
            }
            let document = (self.run)(&["completions", shell, "--json"]).ok().json();
            assert_eq!(document["shell"], shell);
            assert_eq!(document["script"], script);
        }
    }

    /// Asserts that a manual page of every command is written into this new directory.
    ///
    /// # Panics
    /// When one is not.
    pub fn assert_manual(&self, directory: &Path) {
        let text = directory.to_str().expect("a plain name");
        let written = (self.run)(&["man", "--json", "--out", text]).ok().json();
        let listed = written["files"].as_array().map(Vec::len);
        let files = std::fs::read_dir(directory).expect("a directory").count();
        assert_eq!(listed, Some(files));
        for command in self.commands() {
            let page = directory.join(format!("{}-{command}.1", self.name));
            let page = std::fs::read_to_string(page).expect("a page");
            let is_page = page.starts_with(".ie") || page.starts_with(".TH");
            assert!(is_page, "{command}: {page}");
        }
        let title = format!(".TH {} 1", self.name);
        assert!((self.run)(&["man"]).ok().stdout.contains(&title));
    }
}

/// The tests of a [`Program`].
#[macro_export]
macro_rules! tests_of_command_line {
    ($program:expr) => {
        #[test]
        fn every_command_has_help_and_takes_json() {
            $program.assert_help();
        }

        #[test]
        fn help_has_examples_and_fits_a_terminal() {
            $program.assert_examples();
        }

        #[test]
        fn completions_know_every_command() {
            $program.assert_completions();
        }

        #[test]
        fn manual_pages_are_written_for_every_command() {
            let directory = $crate::testing::memory();
            $program.assert_manual(&directory.path().join("man/man1"));
        }
    };
}
