//! Jobs: how a program is used, checked, killed and looked at afterwards, as a shell script.
//!
//! A job begins with lines `# KEY: VALUE`. Then come its sections, which are functions of a POSIX shell. A job that is
//! `like` another has the sections of that, and may set variables for them.

use std::path::Path;

use egeria_harness::{Error, Result};

/// The sections a job may have.
pub(super) const SECTIONS: [&str; 6] = ["version", "prepare", "work", "check", "load", "survived"];

/// Functions that all jobs have.
pub(super) const PRELUDE: &str = include_str!("jobs/prelude.sh");

macro_rules! scripts {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_str!(concat!("jobs/", $name, ".sh")))),*]
    };
}

/// A program, and how it is tried.
#[derive(Clone, Debug, Default)]
pub struct Job {
    /// By which it is chosen.
    pub name: String,
    /// The program's own name.
    pub program: String,
    /// What it is grouped by: `databases`, `tools` and so on.
    pub kind: String,
    /// What its consistency check is, in words.
    pub checks: String,
    /// What must be there after it was killed, in words; empty: it is not killed.
    pub survives: String,
    /// What users should know.
    pub note: String,
    /// Why it cannot work, for what is known and documented; empty: it should work.
    pub known: String,
    /// Programs, files and modules.
    pub needs: Vec<String>,
    /// Directories that are looked through before the usual ones, from that of the tools; one `*` stands for the newest.
    pub path: Vec<String>,
    /// Packages that have what it needs.
    pub debian: Vec<String>,
    pub pypi: Vec<String>,
    pub npm: Vec<String>,
    pub crates: Vec<String>,
    /// It runs as root.
    pub needs_root: bool,
    /// It works on two volumes at the same time.
    pub needs_second: bool,
    /// Longest time of a section, s.
    pub limit_s: u64,
    /// The script.
    pub text: String,
}

/// The jobs that come with this program, in the order of reports.
pub fn jobs() -> Vec<Job> {
    let parsed = SCRIPTS.iter().map(|(name, text)| Job::parse(name, text));
    // A test parses all of them.
    parsed.filter_map(Result::ok).collect()
}

const SCRIPTS: &[(&str, &str)] = &scripts![
    "postgresql",
    "replication",
    "mariadb",
    "sqlite",
    "redis",
    "valkey",
    "etcd",
    "tarantool",
    "lmdb",
    "leveldb",
    "rocksdb",
    "duckdb",
    "h2",
    "nedb",
    "berkeleydb",
    "kyotocabinet",
    "prometheus",
    "influxdb",
    "git",
    "mercurial",
    "subversion",
    "cp",
    "tar",
    "zip",
    "sevenzip",
    "rsync",
    "rclone",
    "restic",
    "borg",
    "b3sum",
    "dpkg",
    "ffmpeg",
    "make",
    "clang",
    "ccache",
    "cargo",
    "go",
    "npm",
    "pip",
    "vim",
    "nano",
    "bash",
    "zsh",
    "maildrop",
    "notmuch",
    "nginx",
    "apache",
    "sftp",
    "samba",
    "seaweedfs",
    "java",
    "node",
    "python",
    "perl",
    "busybox",
    "numpy",
    "h5py",
    "pyarrow",
    "polars",
    "readers",
    "dask",
    "zarr",
    "buildah",
    "overlay",
    "qemu",
    "inotify",
    "fio",
    "dbench",
    "stress-ng",
];

impl Job {
    /// A job of a user's.
    ///
    /// # Errors
    /// When the file cannot be read, or is no job.
    pub fn read(path: &Path) -> Result<Job> {
        let failed = |error| {
            let doing = format!("cannot read {}", path.display());
            Error::io(doing, error, "name a job file")
        };
        let text = std::fs::read_to_string(path).map_err(failed)?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Job::parse(&name, &text)
    }

    fn parse(name: &str, text: &str) -> Result<Job> {
        let mut job = Job {
            name: name.to_owned(),
            program: name.to_owned(),
            kind: "others".to_owned(),
            limit_s: 300,
            text: text.to_owned(),
            ..Job::default()
        };
        for line in text.lines().take_while(|line| line.starts_with('#')) {
            if let Some((key, value)) = line.trim_start_matches(['#', ' ']).split_once(':') {
                job.set(key.trim(), value.trim())
                    .map_err(|why| Error::failed(format!("job {name}: {why}")))?;
            }
        }
        if !job.has("work") {
            return Err(Error::failed(format!(
                "job {name}: it has no section work(); look at the jobs in crates/measure/bench/src/compatibility/jobs"
            )));
        }
        if job.has("load") != job.has("survived") {
            return Err(Error::failed(format!(
                "job {name}: of load() and survived() one is missing; write both or none"
            )));
        }
        Ok(job)
    }

    fn set(&mut self, key: &str, value: &str) -> std::result::Result<(), String> {
        let words = || value.split_whitespace().map(str::to_owned).collect();
        match key {
            "program" => self.program = value.to_owned(),
            "kind" => self.kind = value.to_owned(),
            "checks" => self.checks = value.to_owned(),
            "survives" => self.survives = value.to_owned(),
            "note" => self.note = value.to_owned(),
            "known" => self.known = value.to_owned(),
            "needs" => self.needs = words(),
            "path" => self.path = words(),
            "debian" => self.debian = words(),
            "pypi" => self.pypi = words(),
            "npm" => self.npm = words(),
            "crates" => self.crates = words(),
            "user" => self.needs_root = value == "root",
            "volumes" => self.needs_second = value == "2",
            "like" => {
                let other = SCRIPTS.iter().find(|(name, _)| *name == value);
                let (_, text) = other.ok_or_else(|| format!("there is no job {value}"))?;
                self.text.push_str(text);
            }
            "limit" => {
                let seconds = value.parse();
                self.limit_s = seconds.map_err(|_| format!("limit: {value} is no number"))?;
            }
            other => return Err(format!("unknown key {other}; remove the line")),
        }
        Ok(())
    }

    /// Whether it has this section.
    pub(super) fn has(&self, section: &str) -> bool {
        let head = format!("{section}()");
        self.text.lines().any(|line| line.starts_with(&head))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_job_is_complete() {
        let scripts = std::fs::read_dir(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/src/compatibility/jobs"
        ));
        // All files but the prelude.
        assert_eq!(jobs().len(), scripts.unwrap().count() - 1);
        for job in jobs() {
            let name = &job.name;
            assert!(!job.program.is_empty() && !job.needs.is_empty(), "{name}");
            assert!(job.kind != "others" && !job.checks.is_empty(), "{name}");
            assert_eq!(job.has("load"), !job.survives.is_empty(), "{name}");
        }
    }

    #[test]
    fn what_is_no_job_is_refused_with_its_cause() {
        let refused = |text: &str, words: &str| {
            let error = Job::parse("odd", text).unwrap_err().to_string();
            assert!(
                error.contains("job odd") && error.contains(words),
                "{error}"
            );
        };
        refused("check() {\n}\n", "work()");
        refused("work() {\n}\nload() {\n}\n", "survived()");
        refused("# sort: x\nwork() {\n}\n", "unknown key sort");
        refused("# limit: long\nwork() {\n}\n", "no number");
    }

    #[test]
    fn keys_are_read_until_the_first_line_of_code() {
        let text = "# program: Some Thing\n# needs: a b\n\n# kind: later\nwork() {\n}\n";
        let job = Job::parse("some", text).unwrap();
        assert_eq!(
            (job.program.as_str(), job.kind.as_str()),
            ("Some Thing", "others")
        );
        assert_eq!(job.needs, ["a", "b"]);
    }
}
