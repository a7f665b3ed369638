//! fio: how it is called, and what it says.

use std::path::Path;

use egeria_harness::{Error, Result};
use serde::Deserialize;

use super::Yield;
use super::script::Call;

/// Jobs of fio as threads of one process that make system calls on files.
pub(crate) struct Jobs<'a> {
    /// Where the files are.
    pub(crate) directory: &'a Path,
    pub(crate) count: usize,
    /// Of each job.
    pub(crate) file_bytes: u64,
    /// All use one file, each a part of its own; else each has a file.
    pub(crate) is_shared: bool,
}

impl Jobs<'_> {
    /// Writes the files.
    pub(crate) fn fill(&self) -> Call {
        calls_in(self.directory, self.words(["--rw=write", "--bs=1M"]))
    }

    /// Works as these options say until it is ended.
    pub(crate) fn endless(&self, options: impl IntoIterator<Item = impl Into<String>>) -> Call {
        endless_in(self.directory, self.words(options))
    }

    fn words(&self, options: impl IntoIterator<Item = impl Into<String>>) -> Vec<String> {
        let mut words = vec![
            format!("--numjobs={}", self.count),
            format!("--size={}", self.file_bytes),
        ];
        if self.is_shared {
            words.push("--filename=shared".to_owned());
            words.push(format!("--offset_increment={}", self.file_bytes));
        }
        words.extend(options.into_iter().map(Into::into));
        words
    }
}

/// Threads that make system calls on files in a directory.
pub(crate) fn calls_in(directory: &Path, options: impl IntoIterator<Item = String>) -> Call {
    let mut call = Call::new([
        "fio",
        "--name=f",
        "--ioengine=psync",
        "--thread",
        "--fallocate=none",
    ]);
    call.words
        .push(format!("--directory={}", directory.display()));
    call.words.extend(options);
    call
}

/// The same, until they are ended.
pub(crate) fn endless_in(directory: &Path, options: impl IntoIterator<Item = String>) -> Call {
    let mut call = calls_in(directory, options);
    let endless = ["--time_based", "--runtime=600"];
    call.words.extend(endless.map(str::to_owned));
    call
}

/// What we read of fio's JSON.
#[derive(Deserialize)]
struct Output {
    jobs: Vec<Job>,
}

#[derive(Deserialize)]
struct Job {
    jobname: String,
    error: i32,
    read: Direction,
    write: Direction,
}

#[derive(Deserialize)]
struct Direction {
    io_bytes: u64,
    bw_bytes: f64,
    iops: f64,
}

/// fio may say something before its JSON.
fn parse(text: &str) -> Result<Output> {
    let start = text.find('{').unwrap_or(text.len());
    let parsed: Output = serde_json::from_str(&text[start..]).map_err(|error| {
        Error::failed(format!(
            "fio's JSON is not as expected ({error}); 3.33 works"
        ))
    })?;
    for job in &parsed.jobs {
        if job.error != 0 {
            let why = std::io::Error::from_raw_os_error(job.error);
            return Err(Error::failed(format!("fio job {}: {why}", job.jobname)));
        }
    }
    Ok(parsed)
}

/// What all jobs together read and wrote, wall time.
pub(crate) fn given(said: &str) -> Result<Yield> {
    let jobs = parse(said)?.jobs;
    let sum = |figure: fn(&Job) -> f64| jobs.iter().map(figure).sum::<f64>();
    let given = Yield {
        operations_s: sum(|job| job.read.iops + job.write.iops),
        read_bytes_s: sum(|job| job.read.bw_bytes),
        written_bytes_s: sum(|job| job.write.bw_bytes),
    };
    if given.read_bytes_s + given.written_bytes_s <= 0.0 {
        return Err(Error::failed("fio moved no data; see its messages"));
    }
    Ok(given)
}

/// Bytes that all jobs read.
pub(crate) fn read_bytes(said: &str) -> Result<u64> {
    Ok(parse(said)?.jobs.iter().map(|job| job.read.io_bytes).sum())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `fio --rw=randrw --numjobs=2 --group_reporting --output-format=json`, version 3.33.
    const CAPTURED: &str = include_str!("../../tests/captured/fio-randrw.json");

    #[test]
    fn reads_and_writes_of_a_real_run_are_added() {
        let given = given(CAPTURED).unwrap();
        let value: serde_json::Value =
            serde_json::from_str(&CAPTURED[CAPTURED.find('{').unwrap()..]).unwrap();
        let job = &value["jobs"][0];
        let sum =
            job["read"]["bw_bytes"].as_f64().unwrap() + job["write"]["bw_bytes"].as_f64().unwrap();
        assert_eq!(given.read_bytes_s + given.written_bytes_s, sum);
        assert!(given.operations_s > 1000.0);
    }

    #[test]
    fn a_failed_job_is_an_error_with_its_cause() {
        let text = CAPTURED.replacen("\"error\" : 0", "\"error\" : 84", 1);
        assert_ne!(text, CAPTURED);
        let message = given(&text).unwrap_err().to_string();
        assert!(
            message.contains("fio job") && message.contains("84"),
            "{message}"
        );
    }

    #[test]
    fn what_is_no_json_is_an_error() {
        for text in ["", "{", "fio: no such option", "{\"jobs\": 3}"] {
            assert!(given(text).is_err(), "{text:?}");
        }
    }
}
