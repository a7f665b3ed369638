//! One or two programs at once, started by one shell so that they begin together.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use egeria_harness::process::{self, Cancel};
use egeria_harness::{Error, Result};

/// A program, its arguments, and where its threads may run.
#[derive(Clone)]
pub(crate) struct Call {
    /// Program and arguments.
    pub(crate) words: Vec<String>,
    /// CPUs in the kernel's list format; `None`: all.
    pub(crate) cpus: Option<String>,
}

impl Call {
    /// A call without binding.
    pub(crate) fn new(words: impl IntoIterator<Item = impl Into<String>>) -> Call {
        Call {
            words: words.into_iter().map(Into::into).collect(),
            cpus: None,
        }
    }
}

/// Runs all calls at once, with the preload library, and gives back what each said.
///
/// # Errors
/// When one fails, with its last words, or does not end in time.
pub(crate) fn run(
    calls: &[Call],
    library: &Path,
    directory: &Path,
    limit: Duration,
    cancel: Cancel<'_>,
) -> Result<Vec<String>> {
    let said = |place: usize, what: &str| directory.join(format!("{what}{place}"));
    let mut command = Command::new("sh");
    let script = script(calls, library, |place, what| said(place, what));
    command
        .args(["-c", &script])
        .current_dir(directory)
        .env_remove("LD_PRELOAD");
    let ran = process::run_well(&mut command, limit, cancel);
    let read = |place, what| std::fs::read_to_string(said(place, what)).unwrap_or_default();
    if let Err(error) = ran {
        if matches!(error, Error::Interrupted) {
            return Err(error);
        }
        let words = (0..calls.len()).map(|place| process::last_words(&read(place, "err")));
        let words: String = words.filter(|words| !words.is_empty()).collect();
        let name = calls.first().and_then(|call| call.words.first());
        let name = name.map_or("", String::as_str);
        return Err(Error::failed(format!("{name}: {error}{words}")));
    }
    Ok((0..calls.len()).map(|place| read(place, "out")).collect())
}

fn script(calls: &[Call], library: &Path, said: impl Fn(usize, &str) -> PathBuf) -> String {
    let mut script = "status=0\n".to_owned();
    let quoted = |path: &Path| quote(&path.to_string_lossy());
    for (place, call) in calls.iter().enumerate() {
        let bound = call.cpus.as_ref();
        let bound = bound.map_or(String::new(), |cpus| format!("taskset -c {} ", quote(cpus)));
        let words: Vec<String> = call.words.iter().map(|word| quote(word)).collect();
        let _ = writeln!(
            script,
            "LD_PRELOAD={} {bound}{} >{} 2>{} &\nchild{place}=$!",
            quoted(library),
            words.join(" "),
            quoted(&said(place, "out")),
            quoted(&said(place, "err")),
        );
    }
    for place in 0..calls.len() {
        let _ = writeln!(script, "wait $child{place} || status=$?");
    }
    script + "exit $status\n"
}

/// A word that the shell leaves as it is.
fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_LIBRARY: &str = "";

    fn run_here(calls: &[Call]) -> Result<Vec<String>> {
        let directory = tempfile::tempdir().unwrap();
        let limit = Duration::from_secs(20);
        run(calls, Path::new(NO_LIBRARY), directory.path(), limit, None)
    }

    #[test]
    fn programs_run_together_and_each_is_heard() {
        let odd = "it's \"$HOME\" `odd`";
        let calls = [Call::new(["echo", odd]), Call::new(["echo", "two"])];
        let heard = run_here(&calls).unwrap();
        assert_eq!(heard, [format!("{odd}\n"), "two\n".to_owned()]);
    }

    #[test]
    fn one_that_fails_is_quoted() {
        let calls = [
            Call::new(["true"]),
            Call::new(["sh", "-c", "echo no such luck >&2; exit 3"]),
        ];
        let text = run_here(&calls).unwrap_err().to_string();
        assert!(
            text.contains("status 3") && text.contains("no such luck"),
            "{text}"
        );
    }

    #[test]
    fn threads_run_where_they_are_bound() {
        let mut call = Call::new(["sh", "-c", "taskset -cp $$"]);
        call.cpus = Some("0".to_owned());
        let heard = run_here(&[call]).unwrap();
        assert!(heard[0].trim_end().ends_with(": 0"), "{heard:?}");
    }
}
