//! The volumes that root lists in `/etc/egeria/egeria.toml`, for service managers: what is mounted where, and how.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use clap::Args;
use egeria_policy::planner::System;
use serde::{Deserialize, Deserializer};
use toml::Spanned;

use crate::machine_choice::Allocation;
use crate::policy_choice;
use egeria_cli::failure::{Failure, Outcome, reason};
use egeria_cli::sizes;

/// Where root's settings are.
pub const SETTINGS: &str = "/etc/egeria/egeria.toml";

/// No list of volumes is nearly as large.
const MAX_BYTES: u64 = 1 << 20;

/// Where to look.
#[derive(Args, Clone, Debug)]
pub struct SettingsArgument {
    /// Read this file for the settings
    #[arg(long, value_name = "FILE", default_value = SETTINGS, hide = true)]
    pub settings: PathBuf,
}

/// Everything the file may say. Keys that it does not know are an error, because they would be ignored in silence.
#[derive(Deserialize, Debug, Default)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// Which users may use volumes directly; `egeria_engine` reads it.
    #[serde(default, rename = "direct")]
    _direct: Option<Direct>,
    /// The steward without a volume.
    pub steward: Option<Spanned<ConfiguredSteward>>,
    /// Volumes by name.
    #[serde(default)]
    pub volumes: BTreeMap<String, Spanned<ConfiguredVolume>>,
}

/// What the steward without a volume looks after: the processes of a control group, or all.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct ConfiguredSteward {
    /// A control group, as `system.slice/postgresql.service`.
    pub cgroup: Option<PathBuf>,
    /// All processes.
    #[serde(default)]
    pub all: bool,
    /// What decides.
    #[serde(default, deserialize_with = "policy")]
    pub policy: Option<System>,
    /// Where it serves metrics; nowhere without.
    #[serde(default, deserialize_with = "address")]
    pub metrics: Option<egeria_http::Address>,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
struct Direct {
    #[serde(rename = "groups")]
    _groups: Vec<toml::Value>,
}

/// One volume.
#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub struct ConfiguredVolume {
    /// Its pools. One is enough to find the others; boot waits for the file systems of all that are named.
    pub pools: Vec<PathBuf>,
    /// Where it is mounted.
    pub directory: PathBuf,
    /// The user that owns the pools, if it is not root.
    pub user: Option<String>,
    /// Other users may use the mount.
    #[serde(default)]
    pub allow_other: bool,
    /// Every change is refused.
    #[serde(default)]
    pub read_only: bool,
    /// Bytes of files that the kernel may keep.
    #[serde(default, deserialize_with = "size")]
    pub page_cache: Option<u64>,
    /// Where new data goes.
    #[serde(default, deserialize_with = "allocation")]
    pub alloc: Option<Allocation>,
    /// Threads that may access the memory of each node at once.
    #[serde(default)]
    pub limit: Option<NonZeroU32>,
    /// Threads per node that make long accesses of striped files.
    #[serde(default, deserialize_with = "delegates")]
    pub delegates: Option<u8>,
    /// Mounted at boot.
    #[serde(default = "yes")]
    pub boot: bool,
    /// Policy of its steward; none without.
    #[serde(default, deserialize_with = "policy")]
    pub steward: Option<System>,
    /// Where the mount serves metrics; nowhere without.
    #[serde(default, deserialize_with = "address")]
    pub metrics: Option<egeria_http::Address>,
    /// Where its steward does.
    #[serde(default, deserialize_with = "address")]
    pub steward_metrics: Option<egeria_http::Address>,
}

fn yes() -> bool {
    true
}

fn parsed<'de, D: Deserializer<'de>, T>(
    deserializer: D,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<Option<T>, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse(&text).map(Some).map_err(serde::de::Error::custom)
}

fn size<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    parsed(deserializer, sizes::parse)
}

fn delegates<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u8>, D::Error> {
    let count = u8::deserialize(deserializer)?;
    match count {
        0..=16 => Ok(Some(count)),
        _ => Err(serde::de::Error::custom(
            "delegates: at most 16 threads per node",
        )),
    }
}

fn allocation<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<Allocation>, D::Error> {
    parsed(deserializer, Allocation::parse)
}

fn policy<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<System>, D::Error> {
    parsed(deserializer, policy_choice::policy)
}

/// A port may be a number.
#[derive(Deserialize)]
#[serde(untagged)]
enum NumberOrText {
    Number(i64),
    Text(String),
}

fn address<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<egeria_http::Address>, D::Error> {
    let text = match NumberOrText::deserialize(deserializer)? {
        NumberOrText::Number(number) => number.to_string(),
        NumberOrText::Text(text) => text,
    };
    let parsed = egeria_http::Address::parse(&text).map(Some);
    parsed.map_err(serde::de::Error::custom)
}

impl Configuration {
    /// Reads the file; where there is none, no volume is configured.
    ///
    /// # Errors
    /// A file that cannot be read or that others can write, unknown keys, values that make no sense.
    pub fn read(path: &Path) -> Outcome<Configuration> {
        let text = egeria_files::read_trusted(path, MAX_BYTES).map_err(|error| {
            Failure::new(format!(
                "cannot use {}: {}; it must be a file that root alone can write (chmod go-w)",
                path.display(),
                reason(&error)
            ))
        })?;
        let read = Configuration::parse(&text.unwrap_or_default());
        read.map_err(|cause| {
            Failure::new(format!(
                "{}: {cause}; correct it and look with `egeria units`",
                path.display()
            ))
        })
    }

    /// Reads one volume of the file.
    ///
    /// # Errors
    /// Those of [`Configuration::read`]; a name that is not in the file.
    pub fn volume(path: &Path, name: &str) -> Outcome<ConfiguredVolume> {
        let mut known = Configuration::read(path)?.volumes;
        known.remove(name).map(Spanned::into_inner).ok_or_else(|| {
            let names: Vec<&str> = known.keys().map(String::as_str).collect();
            let has = if names.is_empty() {
                "none".to_owned()
            } else {
                names.join(", ")
            };
            Failure::new(format!(
                "{} has no volume {name:?}, it has {has}; add [volumes.{name}]",
                path.display()
            ))
        })
    }

    /// Reads what the steward without a volume is to do.
    ///
    /// # Errors
    /// Those of [`Configuration::read`]; a file without such a section.
    pub fn steward(path: &Path) -> Outcome<ConfiguredSteward> {
        let steward = Configuration::read(path)?.steward.map(Spanned::into_inner);
        steward.ok_or_else(|| {
            Failure::new(format!(
                "{} has no [steward]; add it, with cgroup = \"system.slice/NAME.service\" or all = true",
                path.display()
            ))
        })
    }

    fn parse(text: &str) -> Result<Configuration, String> {
        let configuration: Configuration = toml::from_str(text).map_err(|error| {
            let line = error.span().map(|span| line_of(text, span.start));
            let line = line.map_or(String::new(), |line| format!("line {line}: "));
            let cause: Vec<&str> = error.message().split_whitespace().collect();
            format!("{line}{}", cause.join(" "))
        })?;
        let line = |span: std::ops::Range<usize>| line_of(text, span.start);
        if let Some(steward) = &configuration.steward {
            let checked = steward.get_ref().check();
            checked.map_err(|cause| format!("line {}: steward: {cause}", line(steward.span())))?;
        }
        for (name, volume) in &configuration.volumes {
            let checked = volume.get_ref().check(name);
            checked.map_err(|cause| {
                format!("line {}: volumes.{name}: {cause}", line(volume.span()))
            })?;
        }
        Ok(configuration)
    }
}

impl ConfiguredSteward {
    fn check(&self) -> Result<(), String> {
        match (&self.cgroup, self.all) {
            (Some(_), true) => {
                Err("it has both cgroup and all = true; leave one of them out".to_owned())
            }
            (None, false) => {
                Err("nothing says what it looks after; add cgroup or all = true".to_owned())
            }
            _ => Ok(()),
        }
    }
}

fn line_of(text: &str, place: usize) -> usize {
    let before = text.as_bytes().iter().take(place);
    1 + before.filter(|&&byte| byte == b'\n').count()
}

impl ConfiguredVolume {
    /// The pool that is named first.
    pub fn pool(&self) -> &Path {
        self.pools.first().map_or(Path::new(""), PathBuf::as_path)
    }

    /// Names become names of units, paths go into them.
    fn check(&self, name: &str) -> Result<(), String> {
        let plain =
            |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '-' | '.');
        if name.is_empty() || !name.chars().all(plain) {
            return Err("a name has letters, digits, `_`, `-` and `.` only".to_owned());
        }
        if self.pools.is_empty() {
            return Err("pools is empty; name at least one".to_owned());
        }
        for path in self.pools.iter().chain([&self.directory]) {
            let text = path.to_str().unwrap_or_default();
            if !path.is_absolute() || text.chars().any(char::is_control) {
                return Err(format!(
                    "{path:?} is no path from the root; write all of it"
                ));
            }
        }
        if self.steward_metrics.is_some() && self.steward.is_none() {
            return Err("steward_metrics without a steward; add steward = \"all\"".to_owned());
        }
        if self.metrics.is_some() && self.metrics == self.steward_metrics {
            return Err("metrics and steward_metrics are the same place; choose two".to_owned());
        }
        match &self.user {
            Some(user) if user.is_empty() || !user.chars().all(plain) => {
                Err(format!("{user:?} is no name of a user"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(text: &str) -> String {
        let cause = Configuration::parse(text).expect_err("it should be refused");
        assert!(!cause.contains('\n'), "{cause}");
        cause
    }

    #[test]
    fn a_volume_is_read_with_its_defaults() {
        let text = "[direct]\ngroups = [\"databases\", 2001]\n\
                    [volumes.data]\npools = [\"/p/0\", \"/p/1\"]\ndirectory = \"/srv/data\"\n\
                    [volumes.log]\npools = [\"/p/2\"]\ndirectory = \"/srv/log\"\nuser = \"postgres\"\nboot = false\n\
                    page_cache = \"1GiB\"\nalloc = \"node=1\"\nsteward = \"full\"\n";
        let read = Configuration::parse(text).expect("a good file");
        let [data, log] = ["data", "log"].map(|name| read.volumes[name].get_ref());
        assert_eq!(data.pool(), Path::new("/p/0"));
        assert!(data.boot && !data.allow_other && data.steward.is_none());
        assert_eq!((log.boot, log.page_cache), (false, Some(1 << 30)));
        assert_eq!(log.alloc, Some(Allocation::Node(1)));
        assert_eq!(log.steward, "full".parse().ok());
        assert!(
            Configuration::parse("")
                .expect("nothing")
                .volumes
                .is_empty()
        );
    }

    #[test]
    fn a_steward_without_a_volume_is_told_whom_to_look_after() {
        let read = |text| Configuration::parse(text).map(|read| read.steward);
        assert!(read("").expect("nothing").is_none());
        let group =
            "[steward]\ncgroup = \"system.slice/a.service\"\npolicy = \"rl\"\nmetrics = 9466\n";
        let group = read(group).expect("a good file").expect("a steward");
        let group = group.get_ref();
        assert_eq!(group.cgroup, Some("system.slice/a.service".into()));
        assert!(!group.all && group.policy == "rl".parse().ok());
        assert!(
            read("[steward]\nall = true\n")
                .expect("a good file")
                .is_some_and(|all| all.get_ref().all)
        );
        assert!(refused("[steward]\n").contains("line 1: steward: nothing says"));
        let both = refused("# Ours.\n\n[steward]\nall = true\ncgroup = \"a\"\n");
        assert!(
            both.contains("line 3: steward: it has both cgroup"),
            "{both}"
        );
        assert!(refused("[steward]\nall = true\npid = 3\n").contains("line 3"));
    }

    #[test]
    fn what_it_does_not_know_is_refused_with_its_line() {
        let volume = "[volumes.data]\npools = [\"/p\"]\ndirectory = \"/srv\"\n";
        let cause = refused(&format!("{volume}read_onyl = true\n"));
        assert!(
            cause.contains("line 4") && cause.contains("read_onyl") && cause.contains("read_only"),
            "{cause}"
        );
        assert!(refused("[volume.data]\n").contains("unknown field `volume`"));
        assert!(refused("[volumes.data]\ndirectory = \"/srv\"\n").contains("pools"));
        assert!(refused(&format!("{volume}steward = \"fast\"\n")).contains("line 4"));
        assert!(refused(&format!("{volume}alloc = \"there\"\n")).contains("node=N"));
        assert!(
            refused("[volumes.\"a b\"]\npools = [\"/p\"]\ndirectory = \"/srv\"\n")
                .contains("letters")
        );
        assert!(refused("[volumes.a]\npools = [\"p\"]\ndirectory = \"/srv\"\n").contains("root"));
        assert!(
            refused("\n[volumes.a]\npools = []\ndirectory = \"/srv\"\n")
                .contains("line 2: volumes.a: pools is empty")
        );
        assert!(
            refused("[volumes.a]\npools = [\"/p\"]\ndirectory = \"/s\\nUser=root\"\n")
                .contains("root")
        );
        assert!(refused(&format!("{volume}user = \"a\\nb\"\n")).contains("user"));
        assert!(refused("[volumes").contains("line 1"));
        let open = refused(&format!("{volume}metrics = \"0.0.0.0:9464\"\n"));
        assert!(
            open.contains("line 4") && open.contains("other machines"),
            "{open}"
        );
        assert!(refused(&format!("{volume}metrics = 70000\n")).contains("no port"));
        assert!(refused(&format!("{volume}steward_metrics = 9465\n")).contains("steward ="));
        let same = "steward = \"all\"\nmetrics = 9464\nsteward_metrics = \"127.0.0.1:9464\"\n";
        assert!(refused(&format!("{volume}{same}")).contains("choose two"));
    }
}
