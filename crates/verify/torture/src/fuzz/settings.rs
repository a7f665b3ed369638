//! Short texts: settings of policies, lists of CPUs, lines of decision logs.

use super::subject::{Case, Observations, Subject, one_line};
use super::text_mutator::mutate;
use super::trace::Scratch;
use egeria_facts::CpuSet;
use egeria_machine::{format_cpu_list, parse_cpu_list};
use egeria_policy::nthread::{Configuration, Settings};
use egeria_stats::rng::Rng;
use egeria_steward::LogReader;

/// Settings as `--set` takes them.
const SETTINGS: [&str; 4] = [
    include_str!("../../fuzz/settings/pairs.txt"),
    "cpu_limit=0.8",
    "off",
    "read_margin_bytes_s=50e6",
];
const LISTS: [&str; 3] = ["0-3,8-11", "0", "0-7:2/4,1024-8191"];
/// A steward's decision log.
const LOG: &str = include_str!("../../fuzz/settings/decisions.jsonl");
const WORDS: [&str; 14] = [
    "cpu_limit=",
    "read_margin_bytes_s=",
    "0-8191",
    "8192",
    ",",
    "-",
    "=",
    "\"kind\":",
    "\"window\"",
    "null",
    "\"number\":",
    "[]",
    "{}",
    "1e9",
];

/// Samples of all kinds, in a row.
pub(super) struct Texts {
    scratch: Scratch,
}

impl Texts {
    pub(super) fn new() -> Result<Texts, String> {
        let scratch = Scratch::new()?;
        Ok(Texts { scratch })
    }

    fn log(&self, text: &[u8], observed: &mut Observations) -> Result<(), String> {
        let path = self.scratch.hold(text)?;
        let mut reader = LogReader::open(&path).map_err(|error| error.to_string())?;
        let mut records = 0;
        loop {
            match reader.next_record() {
                Ok(None) => return Ok(()),
                Ok(Some(record)) => {
                    std::hint::black_box(format!("{record:?}"));
                    observed.record("a record");
                }
                Err(error) => observed.record(&error.to_string()),
            }
            records += 1;
            if records > text.len() {
                return Err("a log without end".to_owned());
            }
        }
    }
}

fn setting(text: &str, observed: &mut Observations) -> Result<(), String> {
    let named: Result<Configuration, _> = text.parse();
    observed.record(if named.is_ok() {
        "a policy"
    } else {
        "no policy"
    });
    for pair in text.lines() {
        for configuration in Configuration::ALL {
            let mut settings = Settings::of(configuration);
            match settings.set_pair(pair) {
                Ok(()) => observed.record(&format!("set {settings:?}")),
                Err(error) => {
                    observed.record(&error.to_string());
                    one_line(&error.to_string())?;
                }
            }
        }
    }
    Ok(())
}

fn list(text: &str, observed: &mut Observations) -> Result<(), String> {
    let set: Result<CpuSet, _> = text.parse();
    observed.record(if set.is_ok() { "a set" } else { "no set" });
    match parse_cpu_list(text) {
        Ok(cpus) => {
            observed.record("a list");
            let again = parse_cpu_list(&format_cpu_list(&cpus));
            if again == Ok(cpus) {
                Ok(())
            } else {
                Err(format!(
                    "{text:?} is another list when written and read: {again:?}"
                ))
            }
        }
        Err(error) => {
            observed.record(&error);
            one_line(&error)
        }
    }
}

impl Subject for Texts {
    fn samples(&self) -> usize {
        SETTINGS.len() + LISTS.len() + 1
    }

    fn attempt(&mut self, case: &Case, observed: &mut Observations) -> Result<(), String> {
        let sample = case.sample as usize % self.samples();
        let all: Vec<&str> = SETTINGS.into_iter().chain(LISTS).chain([LOG]).collect();
        let mut text = all[sample].as_bytes().to_vec();
        for step in &case.mutation_seeds {
            mutate(&mut Rng::new(*step), &mut text, &WORDS);
        }
        observed.line(|| String::from_utf8_lossy(&text).into_owned());
        let words = String::from_utf8_lossy(&text);
        match sample {
            0..4 => setting(&words, observed),
            4..7 => list(words.trim_end_matches('\n'), observed),
            _ => self.log(&text, observed),
        }
    }
}
