//! The number that a command prints.

use std::fmt;

use egeria_files::{Error, Result};
use regex::Regex;

use crate::program::Ran;

/// Finds the number of a run.
#[derive(Clone, Debug)]
pub struct Number(Regex);

impl fmt::Display for Number {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(out)
    }
}

impl Number {
    /// Of what this regular expression matches, or its first group if it has one.
    ///
    /// # Errors
    /// One line that says what is wrong with it.
    pub fn parse(text: &str) -> std::result::Result<Number, String> {
        // Its own message takes several lines and points at a column.
        let wrong = |error: regex::Error| {
            let text = error.to_string();
            let last = text.lines().last().unwrap_or_default();
            last.trim_start_matches("error: ").to_owned()
        };
        Regex::new(text).map(Number).map_err(wrong)
    }

    /// The only number in the output of a run. Standard error is searched if standard output has none.
    ///
    /// # Errors
    /// When there is none, or more than one, or text.
    pub fn find(&self, ran: &Ran) -> Result<f64> {
        let mut found = self.all(&ran.stdout);
        if found.is_empty() {
            found = self.all(&ran.stderr);
        }
        match found[..] {
            [] => Err(Error::failed(format!(
                "nothing that it printed matches `{}`; see what it prints, and correct --measure",
                self.0
            ))),
            [one] => number(one),
            [first, second, ..] => Err(Error::failed(format!(
                "`{}` matches {} times ({first}, {second}); make it match once",
                self.0,
                found.len()
            ))),
        }
    }

    fn all<'t>(&self, text: &'t str) -> Vec<&'t str> {
        let matches = self.0.captures_iter(text);
        let found = matches.filter_map(|captures| captures.get(1).or(captures.get(0)));
        found.map(|found| found.as_str()).collect()
    }
}

fn number(text: &str) -> Result<f64> {
    let value = text.trim().parse::<f64>().ok();
    value.filter(|value| value.is_finite()).ok_or_else(|| {
        Error::failed(format!(
            "{text:?} is no number; put a group around the digits in --measure"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find(pattern: &str, stdout: &str, stderr: &str) -> Result<f64, String> {
        let ran = Ran {
            elapsed_s: 1.0,
            stdout: stdout.to_owned(),
            stderr: stderr.to_owned(),
        };
        let number = Number::parse(pattern).unwrap();
        number.find(&ran).map_err(|error| error.to_string())
    }

    #[test]
    fn the_group_or_the_whole_match_is_the_number() {
        assert_eq!(find(r"tps = ([0-9.]+)", "tps = 812.5 (x)", ""), Ok(812.5));
        assert_eq!(find(r"[0-9]+", "  12\n", "99"), Ok(12.0));
        assert_eq!(find(r"bw=(\S+)", "", "bw=1e3"), Ok(1000.0));
    }

    #[test]
    fn no_number_two_or_text_is_one_line() {
        let refused = |pattern, stdout, words: &str| {
            let line = find(pattern, stdout, "").unwrap_err();
            assert!(line.contains(words) && !line.contains('\n'), "{line}");
        };
        refused("[0-9]+", "none", "nothing that it printed matches");
        refused("[0-9]+", "1 2 3", "matches 3 times (1, 2)");
        refused(r"bw=(\S+)", "bw=fast", "\"fast\" is no number");
        refused(r"bw=(\S+)", "bw=inf", "\"inf\" is no number");
        let wrong = Number::parse("(").unwrap_err();
        assert!(wrong.contains("group") && !wrong.contains('\n'), "{wrong}");
    }
}
