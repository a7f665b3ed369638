//! Cases on disk: what went wrong, saved to be looked at again.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use egeria_harness::{Error, Result};

/// One kind of case: JSON objects that carry their version under a key of their kind.
pub(crate) struct CaseFile {
    /// What it is called: `egeria-torture <word>` saves it.
    pub(crate) word: &'static str,
    pub(crate) version_key: &'static str,
    pub(crate) version: u32,
    /// A larger file is none of ours.
    pub(crate) max_bytes: u64,
    /// What to do when a file is none.
    pub(crate) hint: &'static str,
}

/// What a saved case shows now.
#[derive(Clone, Debug, Serialize)]
pub struct Replayed {
    /// The story, in lines.
    pub text: String,
    /// Whether something is still wrong.
    pub reproduces: bool,
}

impl CaseFile {
    /// Saves a case under the first number that is free: cases of earlier runs stay.
    pub(crate) fn save<T: Serialize>(
        &self,
        directory: &Path,
        name: &str,
        case: &T,
    ) -> Result<PathBuf> {
        let text = serde_json::to_string_pretty(case).map_err(Error::failed)? + "\n";
        std::fs::create_dir_all(directory).map_err(|error| cannot_save(directory, error))?;
        for number in 1..u32::MAX {
            let path = directory.join(format!("{name}-{number}.json"));
            let opened = OpenOptions::new().write(true).create_new(true).open(&path);
            match opened.and_then(|mut file| file.write_all(text.as_bytes())) {
                Ok(()) => return Ok(path),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => return Err(cannot_save(&path, error)),
            }
        }
        let directory = directory.display();
        Err(Error::failed(format!(
            "{directory} is full of cases; remove some"
        )))
    }

    /// Reads a case of this kind and version; what it says is not trusted yet.
    pub(crate) fn load<T: DeserializeOwned>(&self, path: &Path) -> Result<T> {
        let failed = |error| {
            let doing = format!("cannot read {}", path.display());
            Error::io(doing, error, self.hint)
        };
        let bytes = std::fs::metadata(path).map_err(failed)?.len();
        if bytes > self.max_bytes {
            return Err(self.no_case(path, format!("it has {bytes} bytes")));
        }
        let text = std::fs::read(path).map_err(failed)?;
        let no_json = |error: serde_json::Error| self.no_case(path, error.to_string());
        // Another version has other fields: first which it is, then what is in it.
        let value: Value = serde_json::from_slice(&text).map_err(no_json)?;
        match value.get(self.version_key).and_then(Value::as_u64) {
            Some(version) if version == u64::from(self.version) => {
                serde_json::from_slice(&text).map_err(no_json)
            }
            Some(version) => {
                let known = self.version;
                let why = format!("it has version {version}, known here is {known}");
                Err(self.no_case(path, why))
            }
            None => Err(self.no_case(path, format!("it has no {}", self.version_key))),
        }
    }

    /// That a file is no case.
    pub(crate) fn no_case(&self, path: &Path, why: String) -> Error {
        let (path, word, hint) = (path.display(), self.word, self.hint);
        Error::failed(format!("{path} is no {word} case: {why}; {hint}"))
    }
}

fn cannot_save(path: &Path, error: std::io::Error) -> Error {
    let doing = format!("cannot save {}", path.display());
    Error::io(
        doing,
        error,
        "choose a directory that can be written with --out",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_of_earlier_runs_stay() {
        let kind = CaseFile {
            word: "some",
            version_key: "egeria_some_case",
            version: 1,
            max_bytes: 1 << 10,
            hint: "name another",
        };
        let directory = tempfile::tempdir().unwrap();
        let case = |text: &str| serde_json::json!({"egeria_some_case": 1, "text": text});
        for text in ["first", "second"] {
            kind.save(directory.path(), "some", &case(text)).unwrap();
        }
        for (number, text) in [(1, "first"), (2, "second")] {
            let path = directory.path().join(format!("some-{number}.json"));
            assert_eq!(kind.load::<Value>(&path).unwrap(), case(text));
        }
    }
}
