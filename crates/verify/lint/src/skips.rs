//! Tests that could not run: what they noted (`egeria_harness::testing::skip`, and scripts), counted by reason and compared
//! with the skips that are known.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use serde::Deserialize;

/// The skips that are known, below the root of the source tree.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Known {
    #[serde(default, rename = "skip")]
    skips: Vec<KnownSkip>,
}

/// A skip that is no failure of the gate.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KnownSkip {
    /// What program and test begin with; all tests without it.
    #[serde(default)]
    test: String,
    /// What the test says begins so.
    why: String,
    /// Why the gate passes without it.
    reason: String,
}

/// What was skipped, by what the tests said.
pub struct Skips(BTreeMap<String, BTreeSet<String>>);

impl Skips {
    /// Reads what tests noted. A file that is not there says that none was skipped.
    ///
    /// # Errors
    /// A file that cannot be read, and a line of another form.
    pub fn read(file: &Path) -> Result<Skips, String> {
        let text = match fs::read_to_string(file) {
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(),
            text => text.map_err(|error| format!("{}: {error}", file.display()))?,
        };
        let mut skips: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for line in text.lines() {
            let (test, why) = line
                .split_once(": ")
                .ok_or_else(|| format!("{}: not `PROGRAM TEST: WHY`: {line}", file.display()))?;
            let tests = skips.entry(why.to_owned()).or_default();
            tests.insert(test.to_owned());
        }
        Ok(Skips(skips))
    }

    /// A line for each reason, then one with how many tests there are.
    pub fn summary(&self) -> String {
        let tests: BTreeSet<&String> = self.0.values().flatten().collect();
        let lines = self.0.iter().map(|(why, tests)| {
            let names: Vec<&str> = tests.iter().map(String::as_str).collect();
            format!("skipped, {why}: {}\n", names.join(", "))
        });
        let lines: String = lines.collect();
        match tests.len() {
            0 => "skipped: none\n".to_owned(),
            1 => format!("{lines}skipped: 1 test, in whole or in part\n"),
            count => format!("{lines}skipped: {count} tests, in whole or in part\n"),
        }
    }

    /// A line for each skip that the file does not know.
    ///
    /// # Errors
    /// A file that cannot be read or parsed.
    pub fn unknown(&self, known: &Path) -> Result<Vec<String>, String> {
        let path = known.display();
        let text = fs::read_to_string(known).map_err(|error| format!("{path}: {error}"))?;
        let known: Known = toml::from_str(&text).map_err(|error| format!("{path}: {error}"))?;
        if let Some(empty) = known.skips.iter().find(|known| known.reason.is_empty()) {
            return Err(format!("{path}: {} has no reason", empty.why));
        }
        let is_known = |why: &str, test: &str| {
            let mut skips = known.skips.iter();
            skips.any(|known| test.starts_with(&known.test) && why.starts_with(&known.why))
        };
        let skips = self.0.iter();
        let each = skips.flat_map(|(why, tests)| tests.iter().map(move |test| (why, test)));
        let unknown = each.filter(|(why, test)| !is_known(why, test));
        let line = |(why, test)| format!("{test} was skipped, and {path} does not know it: {why}");
        Ok(unknown.map(line).collect())
    }
}
