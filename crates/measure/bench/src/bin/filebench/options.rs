//! The command line.

use std::path::PathBuf;
use std::str::FromStr;

use crate::personality::{Personality, by_name};

/// What it understands.
pub const USAGE: &str = "\
Usage: egeria-filebench --personality NAME --directory DIR [OPTIONS]
The op loops of filebench's personalities, in plain POSIX calls; prints JSON.

  --personality NAME    fileserver, webserver, webproxy or varmail
  --directory DIR       where its files are
  --threads N           default: 50, 100, 100, 16
  --files N             size of the file set; default: 10000, 1000, 10000, 1000
  --file-bytes N        mean size of a file; default: 131072, else 16384
  --io-bytes N          most bytes of one read or write; default: 1048576, webproxy 16384
  --append-bytes N      most bytes of an append; default: 16384
  --seconds S           how long to count; default: 1
  --warmup S            run so long before; default: 0
  --operations N        end after about so many operations instead
  --seed N              choices repeat with the same seed; default: 7
  --prepare-only        make the file set and end
  --run-only            use the file set that is there";

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    PrepareAndRun,
    PrepareOnly,
    RunOnly,
    Help,
}

pub struct Options {
    pub action: Action,
    pub personality: &'static Personality,
    pub directory: PathBuf,
    pub threads: usize,
    pub files: usize,
    pub file_bytes: u64,
    pub io_bytes: u64,
    pub append_bytes: u64,
    pub seconds: f64,
    pub warmup_s: f64,
    pub operations: Option<u64>,
    pub seed: u64,
}

/// Longest run, s.
const MAX_SECONDS: f64 = 86_400.0;

impl Options {
    /// Reads `--name value` pairs.
    pub fn parse(arguments: &[String]) -> Result<Options, String> {
        let value_of = |name: &str| value_of(arguments, name);
        let has = |name: &str| arguments.iter().any(|argument| argument == name);
        let help = has("--help");
        check_names(arguments)?;
        let name = value_of("--personality")?;
        let name = match (name, help) {
            (None, true) => "fileserver",
            (name, _) => name.ok_or("no --personality; see --help")?,
        };
        let personality = by_name(name).ok_or(format!(
            "no personality {name:?}; use fileserver, webserver, webproxy or varmail"
        ))?;
        let directory = match (value_of("--directory")?, help) {
            (None, true) => "",
            (directory, _) => directory.ok_or("no --directory; see --help")?,
        };
        Ok(Options {
            action: action(help, has("--prepare-only"), has("--run-only"))?,
            personality,
            directory: PathBuf::from(directory),
            threads: number(value_of, "--threads", personality.threads, 1..=4096)?,
            files: number(value_of, "--files", personality.files, 1..=10_000_000)?,
            file_bytes: number(
                value_of,
                "--file-bytes",
                personality.file_bytes,
                1..=1 << 40,
            )?,
            io_bytes: number(value_of, "--io-bytes", personality.io_bytes, 1..=1 << 30)?,
            append_bytes: number(value_of, "--append-bytes", 16 << 10, 1..=1 << 30)?,
            seconds: number(value_of, "--seconds", 1.0, 0.0..=MAX_SECONDS)?,
            warmup_s: number(value_of, "--warmup", 0.0, 0.0..=MAX_SECONDS)?,
            operations: match value_of("--operations")? {
                Some(_) => Some(number(value_of, "--operations", 0, 1..=u64::MAX)?),
                None => None,
            },
            seed: number(value_of, "--seed", 7, 0..=u64::MAX)?,
        })
    }
}

const FLAGS: [&str; 3] = ["--help", "--prepare-only", "--run-only"];

fn action(help: bool, prepare: bool, run: bool) -> Result<Action, String> {
    match (help, prepare, run) {
        (true, ..) => Ok(Action::Help),
        (_, true, true) => Err("use --prepare-only or --run-only, not both".to_owned()),
        (_, true, _) => Ok(Action::PrepareOnly),
        (_, _, true) => Ok(Action::RunOnly),
        _ => Ok(Action::PrepareAndRun),
    }
}

/// Every second word is a value, except after flags.
fn check_names(arguments: &[String]) -> Result<(), String> {
    let mut words = arguments.iter();
    while let Some(word) = words.next() {
        if FLAGS.contains(&word.as_str()) {
            continue;
        }
        if !word.starts_with("--") || !USAGE.contains(&format!("\n  {word} ")) {
            return Err(format!("no option {word:?}; see --help"));
        }
        words.next();
    }
    Ok(())
}

fn value_of<'a>(arguments: &'a [String], name: &str) -> Result<Option<&'a str>, String> {
    match arguments.iter().position(|argument| argument == name) {
        None => Ok(None),
        Some(at) => match arguments.get(at + 1) {
            Some(value) => Ok(Some(value)),
            None => Err(format!("{name} needs a value; see --help")),
        },
    }
}

fn number<'a, T: FromStr + PartialOrd + std::fmt::Display>(
    value_of: impl Fn(&str) -> Result<Option<&'a str>, String>,
    name: &str,
    otherwise: T,
    range: std::ops::RangeInclusive<T>,
) -> Result<T, String> {
    let Some(text) = value_of(name)? else {
        return Ok(otherwise);
    };
    let parsed = text.parse().ok().filter(|value| range.contains(value));
    let (least, most) = (range.start(), range.end());
    parsed.ok_or_else(|| format!("{name} cannot be {text:?}; use {least} to {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Options, String> {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        Options::parse(&words)
    }

    #[test]
    fn stock_sizes_apply_where_nothing_is_said() {
        let options = parse("--personality webserver --directory /tmp").unwrap();
        assert_eq!((options.threads, options.file_bytes), (100, 16_384));
        assert_eq!(options.action, Action::PrepareAndRun);
        let options =
            parse("--personality varmail --directory /tmp --threads 3 --run-only").unwrap();
        assert_eq!((options.threads, options.action), (3, Action::RunOnly));
    }

    #[test]
    fn what_cannot_be_is_refused_with_a_hint() {
        for (line, expected) in [
            ("--directory /tmp", "no --personality"),
            ("--personality oltp --directory /tmp", "use fileserver"),
            ("--personality varmail", "no --directory"),
            (
                "--personality varmail --directory /tmp --threads 0",
                "1 to 4096",
            ),
            (
                "--personality varmail --directory /tmp --seconds NaN",
                "--seconds",
            ),
            (
                "--personality varmail --directory /tmp --thread 3",
                "no option",
            ),
            ("--personality varmail --directory", "needs a value"),
            (
                "--personality varmail --directory /tmp --run-only --prepare-only",
                "not both",
            ),
        ] {
            let error = parse(line).err().unwrap_or_default();
            assert!(error.contains(expected), "{line}: {error}");
        }
    }
}
