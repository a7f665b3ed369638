//! The jobs, and the commands that do them.

use std::path::Path;
use std::process::Command;

use crate::programs::git::quiet_git;
use crate::subjects::{Places, Subject};

/// What a program does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Job {
    /// Extract an archive of the tree.
    Tar,
    Cp,
    /// List it, with attributes.
    Ls,
    /// Find files by size.
    Find,
    Du,
    /// Search in all files.
    Rg,
    /// Copy the tree, again.
    Rsync,
    /// Make a repository of the tree.
    GitCommit,
    /// Compare the tree with it.
    GitStatus,
    Zip,
    /// Remove what others made.
    Rm,
}

/// Packs a tree; the same bytes for the same tree.
const ZIP: &str = "
import os, sys, zipfile
root, target = sys.argv[1:]
with zipfile.ZipFile(target, 'w', zipfile.ZIP_DEFLATED, strict_timestamps=False) as archive:
    for at, directories, files in os.walk(root):
        directories.sort()
        for name in sorted(files):
            path = os.path.join(at, name)
            if os.path.isfile(path):
                archive.write(path, os.path.relpath(path, root))
";

impl Job {
    /// All, in the order they run.
    pub const ALL: [Job; 11] = [
        Job::Tar,
        Job::Cp,
        Job::Ls,
        Job::Find,
        Job::Du,
        Job::Rg,
        Job::Rsync,
        Job::GitCommit,
        Job::GitStatus,
        Job::Zip,
        Job::Rm,
    ];

    /// The name used in options.
    pub fn name(self) -> &'static str {
        match self {
            Job::Tar => "tar",
            Job::Cp => "cp",
            Job::Ls => "ls",
            Job::Find => "find",
            Job::Du => "du",
            Job::Rg => "rg",
            Job::Rsync => "rsync",
            Job::GitCommit => "git-commit",
            Job::GitStatus => "git-status",
            Job::Zip => "zip",
            Job::Rm => "rm",
        }
    }

    pub fn named(name: &str) -> Option<Job> {
        Job::ALL.into_iter().find(|job| job.name() == name)
    }

    /// The name used in rows and tables.
    pub fn title(self) -> &'static str {
        match self {
            Job::Tar => "tar x",
            Job::Cp => "cp -a",
            Job::Ls => "ls -lR",
            Job::Find => "find -size",
            Job::Du => "du",
            Job::Rg => "rg -c",
            Job::Rsync => "rsync -a",
            Job::GitCommit => "git init, add, commit",
            Job::GitStatus => "git status",
            Job::Zip => "zip (Python)",
            Job::Rm => "rm -rf",
        }
    }

    /// The program it needs, and the Debian package that has it.
    pub fn needs(self) -> (&'static str, &'static str) {
        match self {
            Job::Tar => ("tar", "tar"),
            Job::Cp | Job::Ls | Job::Du | Job::Rm => ("cp", "coreutils"),
            Job::Find => ("find", "findutils"),
            Job::Rg => ("rg", "ripgrep"),
            Job::Rsync => ("rsync", "rsync"),
            Job::GitCommit | Job::GitStatus => ("git", "git"),
            Job::Zip => ("python3", "python3"),
        }
    }

    /// What it makes in the directory of a place; `None` when it only looks.
    pub(super) fn product(self) -> Option<&'static str> {
        match self {
            Job::Tar => Some("unpacked"),
            Job::Cp => Some("copied"),
            Job::Rsync => Some("synced"),
            Job::GitCommit => Some("repository"),
            Job::Zip => Some("tree.zip"),
            Job::Ls | Job::Find | Job::Du | Job::Rg | Job::GitStatus | Job::Rm => None,
        }
    }

    /// Whether it makes another tree like the original.
    pub(super) fn makes_tree(self) -> bool {
        matches!(self, Job::Tar | Job::Cp | Job::Rsync)
    }

    /// Whether it reads the tree at its place.
    pub(super) fn reads(self) -> bool {
        !self.makes_tree() && self != Job::Rm
    }

    /// The command, in the directory of a place; `original` is the tree on tmpfs and its archive.
    pub(super) fn command(
        self,
        places: &Places,
        subject: Subject,
        tools: &Tools<'_>,
        directory: &Path,
    ) -> Command {
        let product = directory.join(self.product().unwrap_or("copied"));
        let tree = directory.join("tree");
        let of = |program: &str, arguments: &[&str]| {
            let mut command = places.command(subject, program);
            command.args(arguments);
            // What is printed begins with a dot everywhere.
            command.current_dir(if self.reads() { &tree } else { directory });
            command
        };
        match self {
            Job::Tar => {
                let mut command = of("tar", &["--extract", "--file"]);
                command.arg(tools.archive).arg("-C").arg(product);
                command
            }
            Job::Cp => {
                let mut command = of("cp", &["-a"]);
                command.arg(tools.original).arg(product);
                command
            }
            Job::Rsync => {
                let mut command = of("rsync", &["-a"]);
                command.arg(tools.original.join("")).arg(product);
                command
            }
            Job::Ls => of("ls", &["-lR", "."]),
            Job::Find => of("find", &[".", "-type", "f", "-size", "+8k"]),
            Job::Du => of("du", &["-al", "--apparent-size", "--block-size=1", "."]),
            Job::Rg => of(
                "rg",
                &["--no-config", "--no-ignore", "--hidden", "-c", "or", "."],
            ),
            Job::GitCommit => {
                let script = "git init -q -b main && git add -A . && git commit -q -m everything";
                repository(of("sh", &["-c", script]), directory)
            }
            Job::GitStatus => repository(of("git", &["status", "--porcelain"]), directory),
            Job::Zip => {
                let mut command = of(tools.python, &["-I", "-c", ZIP]);
                command.arg(tree).arg(product);
                command
            }
            Job::Rm => {
                let mut command = of("rm", &["-rf"]);
                command.arg(product);
                command
            }
        }
    }
}

/// Where jobs find what they need beside the place.
pub(super) struct Tools<'a> {
    /// The original tree.
    pub original: &'a Path,
    pub archive: &'a Path,
    pub python: &'a str,
}

/// A command of git, or of a shell that runs it, on the repository of a directory.
pub(super) fn repository(mut command: Command, directory: &Path) -> Command {
    let options = quiet_git(Command::new("git"));
    command.envs(
        options
            .get_envs()
            .filter_map(|(name, value)| Some((name, value?))),
    );
    command
        .env("GIT_DIR", directory.join("repository"))
        .env("GIT_WORK_TREE", directory.join("tree"))
        .env("GIT_CONFIG_COUNT", "2")
        .env("GIT_CONFIG_KEY_0", "gc.auto")
        .env("GIT_CONFIG_VALUE_0", "0")
        .env("GIT_CONFIG_KEY_1", "safe.directory")
        .env("GIT_CONFIG_VALUE_1", "*");
    command
}
