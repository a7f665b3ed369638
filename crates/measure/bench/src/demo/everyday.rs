//! `cp -a`, `tar`, `sqlite3` and `git clone`: everyday use, at this machine's speed.
//!
//! What they leave is checked through the mount by programs without the preload library, so that
//! both ways to the data are seen to agree.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::report::{DemoRow, Family, Throughput};
use super::stage::{FILES_LIMIT, Place, Stage, attempt};
use crate::programs::git::quiet_git;
use crate::programs::tree::{self, Look};
use egeria_harness::process::{self, Finished};
use egeria_harness::{Error, Result};

/// Where the programs work at each place.
pub(super) const DIRECTORY: &str = "everyday";
/// No run takes nearly this long.
const LIMIT: Duration = Duration::from_secs(60);
/// Rows of the SQLite table.
const TABLE_ROWS: u32 = 40_000;

/// What all of them work on, outside of both file systems' ways: a tree, and a git repository of it.
pub(super) struct Sources {
    tree: PathBuf,
    tree_bytes: u64,
    repository: PathBuf,
    repository_bytes: u64,
}

impl Sources {
    pub(super) fn make(stage: &Stage<'_>) -> Result<Sources> {
        let (tree, repository) = (
            stage.backstage().join("source"),
            stage.backstage().join("repository"),
        );
        let failed = |error| Error::io("cannot make a tree to copy", error, "is the tmpfs full?");
        let tree_bytes = tree::make(&tree, stage.is_quick()).map_err(failed)?;
        let repository_bytes = tree::make(&repository, stage.is_quick()).map_err(failed)?;
        let sources = Sources {
            tree,
            tree_bytes,
            repository,
            repository_bytes,
        };
        sources.commit(stage)?;
        Ok(sources)
    }

    /// Three commits, so that there is a history to clone.
    fn commit(&self, stage: &Stage<'_>) -> Result<()> {
        self.git(stage, &["init", "--quiet", "--initial-branch=main"])?;
        for round in 0..3 {
            let history = self.repository.join("history.txt");
            let text = format!("round {round}\n").repeat(100 + round);
            let written = std::fs::write(history, text);
            written.map_err(|error| {
                Error::io("cannot make a repository", error, "is the tmpfs full?")
            })?;
            self.git(stage, &["add", "--all"])?;
            self.git(stage, &["commit", "--quiet", "--message=another round"])?;
        }
        Ok(())
    }

    fn git(&self, stage: &Stage<'_>, arguments: &[&str]) -> Result<Finished> {
        let mut command = quiet_git(stage.plain_command("git"));
        command.arg("-C").arg(&self.repository).args(arguments);
        stage.run(Place::Tmpfs, &mut command, LIMIT)
    }
}

/// The rows, in order.
pub(super) const PROGRAMS: [(&str, &str); 5] = [
    ("cp", "-a of a tree"),
    ("tar", "create"),
    ("tar", "extract"),
    ("sqlite3", "insert, index, update"),
    ("git", "clone"),
];

/// Runs the program with this place in [`PROGRAMS`] on both file systems and checks what it made on Egeria.
pub(super) fn run(stage: &Stage<'_>, sources: &Sources, program: usize) -> Result<DemoRow> {
    let (name, workload) = PROGRAMS[program];
    let row = DemoRow::new(Family::Everyday, name, workload);
    attempt(row, |row| {
        let mut answers = Vec::new();
        for place in [Place::Egeria, Place::Tmpfs] {
            let work = Work {
                stage,
                sources,
                place,
                directory: stage.directory(place, DIRECTORY)?,
            };
            stage.measure(place, row, || match (name, workload) {
                ("cp", _) => work.copy(),
                ("tar", "create") => work.pack(),
                ("tar", _) => work.unpack(),
                ("sqlite3", _) => work.fill_database(),
                _ => work.clone_repository(),
            })?;
            answers.push(match (name, workload) {
                ("cp", _) => work.check_tree("copy")?,
                ("tar", "create") => work.check_archive()?,
                ("tar", _) => work.check_tree("unpacked")?,
                ("sqlite3", _) => work.check_database()?,
                _ => work.check_clone()?,
            });
        }
        if answers[0] != answers[1] {
            return Err(Error::failed(format!(
                "Egeria: {}; tmpfs: {}",
                answers[0], answers[1]
            )));
        }
        row.verification = answers.swap_remove(0);
        Ok(())
    })
}

/// One program at one place.
struct Work<'a> {
    stage: &'a Stage<'a>,
    sources: &'a Sources,
    place: Place,
    directory: PathBuf,
}

impl Work<'_> {
    fn copy(&self) -> Result<Throughput> {
        let mut command = self.stage.command(self.place, "cp");
        command
            .arg("-a")
            .arg(&self.sources.tree)
            .arg(self.directory.join("copy"));
        self.timed(&mut command, self.sources.tree_bytes)
    }

    fn pack(&self) -> Result<Throughput> {
        let mut command = self.stage.command(self.place, "tar");
        command
            .arg("--create")
            .arg("--file")
            .arg(self.archive())
            .arg("-C")
            .arg(&self.sources.tree)
            .arg(".");
        self.timed(&mut command, self.sources.tree_bytes)
    }

    fn unpack(&self) -> Result<Throughput> {
        let target = self
            .stage
            .directory(self.place, &format!("{DIRECTORY}/unpacked"))?;
        let mut command = self.stage.command(self.place, "tar");
        command
            .arg("--extract")
            .arg("--file")
            .arg(self.archive())
            .arg("-C")
            .arg(target);
        self.timed(&mut command, self.sources.tree_bytes)
    }

    fn fill_database(&self) -> Result<Throughput> {
        let script = self.stage.backstage().join("fill.sql");
        let rows = if self.stage.is_quick() {
            TABLE_ROWS / 10
        } else {
            TABLE_ROWS
        };
        let written = std::fs::File::create(&script)
            .and_then(|mut file| file.write_all(sql(rows).as_bytes()));
        written.map_err(|error| Error::io("cannot write a script", error, "is the tmpfs full?"))?;
        let mut command = self.stage.command(self.place, "sqlite3");
        command
            .arg("-batch")
            .arg("-bail")
            .arg(self.database())
            .arg(format!(".read '{}'", script.display()));
        let finished = self.stage.run(self.place, &mut command, LIMIT)?;
        let facts = std::fs::metadata(self.database());
        let facts =
            facts.map_err(|error| Error::io("no database was made", error, "see sqlite3"))?;
        Ok(pace(facts.len(), &finished))
    }

    fn clone_repository(&self) -> Result<Throughput> {
        let mut command = quiet_git(self.stage.command(self.place, "git"));
        command
            .args(["clone", "--quiet", "--no-local"])
            .arg(&self.sources.repository)
            .arg(self.clone_directory());
        self.timed(&mut command, self.sources.repository_bytes)
    }

    fn timed(&self, command: &mut Command, bytes: u64) -> Result<Throughput> {
        Ok(pace(bytes, &self.stage.run(self.place, command, LIMIT)?))
    }

    fn archive(&self) -> PathBuf {
        self.directory.join("archive.tar")
    }

    fn database(&self) -> PathBuf {
        self.directory.join("table.sqlite")
    }

    fn clone_directory(&self) -> PathBuf {
        self.directory.join("clone")
    }

    fn check_tree(&self, copy: &str) -> Result<String> {
        let files = self.same(
            &self.sources.tree,
            &self.directory.join(copy),
            Look::Everything,
            &[],
        )?;
        Ok(format!(
            "{files} files, links and directories the same, with modes and times"
        ))
    }

    fn check_archive(&self) -> Result<String> {
        let mut command = self.stage.plain_command("tar");
        command
            .arg("--compare")
            .arg("--file")
            .arg(self.archive())
            .arg("-C")
            .arg(&self.sources.tree);
        self.check(&mut command)?;
        Ok("tar --compare found no difference".to_owned())
    }

    fn check_database(&self) -> Result<String> {
        let mut command = self.stage.plain_command("sqlite3");
        let question = "PRAGMA integrity_check; SELECT count(*), sum(id), sum(length(value)), max(name) FROM entry; \
                        SELECT count(*) FROM entry INDEXED BY entry_name WHERE name > '8';";
        command
            .arg("-batch")
            .arg("-bail")
            .arg(self.database())
            .arg(question);
        let answer = self.check(&mut command)?.stdout;
        let lines: Vec<&str> = answer.lines().collect();
        match lines.as_slice() {
            ["ok", sums, names] => Ok(format!("integrity_check ok, sums {sums}, {names} by index")),
            _ => Err(Error::failed(format!(
                "sqlite3 integrity_check: {}",
                lines.join("; ")
            ))),
        }
    }

    fn check_clone(&self) -> Result<String> {
        let git = |arguments: &[&str]| {
            let mut command = quiet_git(self.stage.plain_command("git"));
            command
                .arg("-C")
                .arg(self.clone_directory())
                .args(arguments);
            self.check(&mut command)
        };
        git(&["fsck", "--full", "--strict"])?;
        let changed = git(&["status", "--porcelain"])?.stdout;
        if let Some(line) = changed.lines().next() {
            return Err(Error::failed(format!("git status in the clone: {line}")));
        }
        let files = self.same(
            &self.sources.repository,
            &self.clone_directory(),
            Look::Content,
            &[".git"],
        )?;
        let head = git(&["rev-parse", "HEAD"])?.stdout;
        Ok(format!(
            "git fsck clean, head {:.10}, {files} entries the same",
            head.trim()
        ))
    }

    fn check(&self, command: &mut Command) -> Result<Finished> {
        self.stage.run(self.place.untimed(), command, LIMIT)
    }

    fn same(
        &self,
        source: &Path,
        copy: &Path,
        look: Look,
        without: &[&'static str],
    ) -> Result<usize> {
        let print = |root: &Path| {
            let (root, without) = (root.to_owned(), without.to_owned());
            let doing = format!("cannot read {}", root.display());
            process::within(FILES_LIMIT, "reading a tree back", move || {
                tree::fingerprint(&root, look, &without)
            })?
            .map_err(|error| Error::io(doing, error, "see the mount"))
        };
        let (expected, found) = (print(source)?, print(copy)?);
        match tree::difference(&expected, &found) {
            None => Ok(found.len()),
            Some(difference) => Err(Error::failed(format!("wrong data: {difference}"))),
        }
    }
}

fn pace(bytes: u64, finished: &Finished) -> Throughput {
    Throughput {
        bytes_s: bytes as f64 / finished.elapsed.as_secs_f64().max(1e-6),
        ops_s: None,
    }
}

/// A table of some 20 MB: inserted in several transactions, indexed, changed and thinned out.
fn sql(rows: u32) -> String {
    let mut script = String::from(
        "PRAGMA synchronous = FULL;\n\
         CREATE TABLE entry (id INTEGER PRIMARY KEY, name TEXT NOT NULL, value BLOB NOT NULL);\n",
    );
    let step = rows / 10;
    for part in 0..10 {
        let (first, last) = (part * step + 1, (part + 1) * step);
        script.push_str(&format!(
            "BEGIN; WITH RECURSIVE number(n) AS (SELECT {first} UNION ALL SELECT n + 1 FROM number WHERE n < {last}) \
             INSERT INTO entry SELECT n, printf('%08x', (n * 2654435761) % 4294967296), \
             CAST(printf('%0480d', n) AS BLOB) FROM number; COMMIT;\n"
        ));
    }
    script.push_str(
        "CREATE INDEX entry_name ON entry (name);\n\
         UPDATE entry SET value = CAST(name || value AS BLOB) WHERE id % 7 = 0;\n\
         DELETE FROM entry WHERE id % 11 = 0;\n",
    );
    script
}
