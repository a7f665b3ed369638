//! The personalities of NThread's Table III, by `egeria-filebench`.

use std::path::Path;
use std::time::Duration;

use serde::Deserialize;

use super::Yield;
use super::script::Call;
use egeria_harness::{Error, Result};

/// Files of a set; Table III has 100,000, to windows 125 times as long.
const FILES: u32 = 800;

/// Makes the set of files.
pub(crate) fn prepare(program: &Path, personality: &str, directory: &Path) -> Call {
    let mut call = common(program, personality, directory);
    call.words.push("--prepare-only".to_owned());
    call
}

/// The measured run.
pub(crate) fn call(
    program: &Path,
    personality: &str,
    directory: &Path,
    threads: u32,
    (warm_up, measured): (Duration, Duration),
) -> Call {
    let mut call = common(program, personality, directory);
    call.words.push("--run-only".to_owned());
    let pairs = [
        ("--threads", threads.to_string()),
        ("--warmup", warm_up.as_secs_f64().to_string()),
        ("--seconds", measured.as_secs_f64().to_string()),
    ];
    for (name, value) in pairs {
        call.words.extend([name.to_owned(), value]);
    }
    call
}

fn common(program: &Path, personality: &str, directory: &Path) -> Call {
    Call::new([
        program.display().to_string(),
        "--personality".to_owned(),
        personality.to_owned(),
        "--directory".to_owned(),
        directory.display().to_string(),
        "--files".to_owned(),
        FILES.to_string(),
    ])
}

#[derive(Deserialize)]
struct Said {
    operations: u64,
    read_bytes: u64,
    written_bytes: u64,
    seconds: f64,
}

/// What it says it did, wall time.
pub(crate) fn given(said: &str) -> Result<Yield> {
    let unexpected = |error| {
        Error::failed(format!(
            "egeria-filebench said something else ({error}); rebuild it"
        ))
    };
    let said: Said = serde_json::from_str(said.trim()).map_err(unexpected)?;
    if said.operations == 0 || said.seconds <= 0.0 {
        return Err(Error::failed(
            "egeria-filebench did nothing in its time; see its messages",
        ));
    }
    let rate = |count: u64| count as f64 / said.seconds;
    Ok(Yield {
        operations_s: rate(said.operations),
        read_bytes_s: rate(said.read_bytes),
        written_bytes_s: rate(said.written_bytes),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_says_becomes_rates() {
        let said = r#"{"personality":"varmail","threads":2,"files":9,"operations":300,"read_bytes":500,
            "written_bytes":100,"seconds":2.0,"operations_s":150.0}"#;
        let given = given(said).unwrap();
        assert_eq!((given.operations_s, given.read_bytes_s), (150.0, 250.0));
        assert_eq!(given.written_bytes_s, 50.0);
    }

    #[test]
    fn silence_idleness_and_nonsense_are_errors() {
        let idle = r#"{"operations":0,"read_bytes":0,"written_bytes":0,"seconds":1.0}"#;
        for text in ["", "{}", "ops 3", idle] {
            assert!(given(text).is_err(), "{text:?}");
        }
    }
}
