//! `egeria units`: what systemd needs to know of the volumes in egeria.toml, as its generator writes it at boot.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use clap::Args;
use egeria_machine::NamedPath;
use egeria_policy::planner::System;
use serde::Serialize;

use crate::configuration::{Configuration, ConfiguredSteward, ConfiguredVolume, SettingsArgument};
use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output::Format;
use egeria_http;

/// Where the package puts the template units.
const TEMPLATES: &str = "/usr/lib/systemd/system";
/// What is mounted at boot is mounted for this.
const BOOT: &str = "multi-user.target";

/// Arguments of `egeria units`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria units
  egeria units --out /tmp/units

Reads the volumes and the steward in /etc/egeria/egeria.toml. Without --out it
only says which there are, or what is wrong with the file. The package's
generator calls it with --out at boot and after `systemctl daemon-reload`.")]
pub struct Arguments {
    /// Write links and settings of their units below this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    settings: SettingsArgument,
}

#[derive(Serialize)]
struct Document {
    settings: NamedPath,
    volumes: Vec<Unit>,
    /// The steward without a volume.
    steward: Option<StewardUnit>,
}

#[derive(Serialize)]
struct StewardUnit {
    unit: &'static str,
    /// The control group that it looks after; `null`: all processes.
    cgroup: Option<NamedPath>,
    policy: String,
}

#[derive(Serialize)]
struct Unit {
    name: String,
    unit: String,
    steward_unit: Option<String>,
    boot: bool,
    directory: NamedPath,
    pools: Vec<NamedPath>,
    user: Option<String>,
}

/// Says what is configured, or writes it for systemd.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let settings = &arguments.settings.settings;
    let configuration = Configuration::read(settings)?;
    if let Some(out) = &arguments.out {
        for (name, volume) in &configuration.volumes {
            write(out, name, volume.get_ref()).map_err(|error| {
                Failure::io(
                    "write units below",
                    out,
                    &error,
                    "name a directory of your own",
                )
            })?;
        }
    }
    let volumes = configuration.volumes.iter();
    let volumes = volumes.map(|(name, volume)| unit_of(name, volume.get_ref()));
    let volumes = volumes.collect();
    let document = Document {
        settings: settings.clone().into(),
        volumes,
        steward: configuration
            .steward
            .as_ref()
            .map(|steward| steward_of(steward.get_ref())),
    };
    format.print(&document, human)
}

fn volume_unit(name: &str) -> String {
    format!("egeria-volume@{name}.service")
}

fn steward_unit(name: &str) -> String {
    format!("egeria-steward@{name}.service")
}

fn unit_of(name: &str, volume: &ConfiguredVolume) -> Unit {
    Unit {
        name: name.to_owned(),
        unit: volume_unit(name),
        steward_unit: volume.steward.map(|_| steward_unit(name)),
        boot: volume.boot,
        directory: volume.directory.clone().into(),
        pools: volume.pools.iter().cloned().map(Into::into).collect(),
        user: volume.user.clone(),
    }
}

/// Started by its own unit: no other one wants it.
const STEWARD_UNIT: &str = "egeria-steward.service";

fn steward_of(steward: &ConfiguredSteward) -> StewardUnit {
    StewardUnit {
        unit: STEWARD_UNIT,
        cgroup: steward.cgroup.clone().map(Into::into),
        policy: steward.policy.unwrap_or(System::All).to_string(),
    }
}

fn human(document: &Document) -> String {
    let steward = document.steward.as_ref().map(|steward| {
        let of = match &steward.cgroup {
            Some(group) => format!("the processes of {group}"),
            None => "all processes".to_owned(),
        };
        let (unit, policy) = (steward.unit, &steward.policy);
        format!("steward of {of}, policy {policy}: {unit} (systemctl enable --now {unit})\n")
    });
    if document.volumes.is_empty() && steward.is_none() {
        return format!("no volume and no steward in {}\n", document.settings);
    }
    let line = |unit: &Unit| {
        let steward = unit.steward_unit.iter().map(String::as_str);
        let units: Vec<&str> = [unit.unit.as_str()].into_iter().chain(steward).collect();
        format!(
            "{} on {}{}: {}\n",
            unit.name,
            unit.directory,
            if unit.boot { ", at boot" } else { "" },
            units.join(", ")
        )
    };
    document.volumes.iter().map(line).chain(steward).collect()
}

fn write(out: &Path, name: &str, volume: &ConfiguredVolume) -> std::io::Result<()> {
    let unit = volume_unit(name);
    drop_in(out, &unit, &volume_settings(volume))?;
    if volume.boot {
        wanted(out, BOOT, &unit)?;
    }
    if volume.steward.is_some() {
        let steward = steward_unit(name);
        wanted(out, &unit, &steward)?;
        drop_in(out, &steward, &steward_settings(volume))?;
    }
    Ok(())
}

fn drop_in(out: &Path, unit: &str, text: &str) -> std::io::Result<()> {
    let directory = out.join(format!("{unit}.d"));
    fs::create_dir_all(&directory)?;
    egeria_files::write(&directory.join("50-egeria-toml.conf"), text.as_bytes())
}

/// `unit` is started with `by`.
fn wanted(out: &Path, by: &str, unit: &str) -> std::io::Result<()> {
    let directory = out.join(format!("{by}.wants"));
    fs::create_dir_all(&directory)?;
    let template = match unit.split_once('@') {
        Some((template, _)) => format!("{template}@.service"),
        None => unit.to_owned(),
    };
    let link = directory.join(unit);
    let _ = fs::remove_file(&link);
    symlink(Path::new(TEMPLATES).join(template), link)
}

const ORIGIN: &str = "# From /etc/egeria/egeria.toml, by `egeria units`; `systemctl daemon-reload` writes it anew.\n";

fn volume_settings(volume: &ConfiguredVolume) -> String {
    let paths = volume.pools.iter().chain([&volume.directory]);
    let paths: Vec<String> = paths.map(|path| quoted(path)).collect();
    let mut text = format!("{ORIGIN}[Unit]\nRequiresMountsFor={}\n", paths.join(" "));
    if let Some(user) = &volume.user {
        // Without root, `fusermount3` mounts, with the rights that its set-user-id bit gives it: none of what takes
        // that bit's effect away may be on.
        text.push_str(&format!(
            "[Service]\nUser={user}\nNoNewPrivileges=no\nCapabilityBoundingSet=CAP_SETUID CAP_SETGID\nSystemCallFilter=\n\
             SystemCallArchitectures=\nRestrictAddressFamilies=\nRestrictNamespaces=no\nRestrictRealtime=no\n\
             RestrictSUIDSGID=no\nLockPersonality=no\nMemoryDenyWriteExecute=no\n"
        ));
    }
    // A service without a list of address families must not get one.
    let families = volume.user.is_none();
    text.push_str(&reachable(volume.metrics.as_ref(), families));
    text
}

fn steward_settings(volume: &ConfiguredVolume) -> String {
    let user = volume.user.as_ref();
    let user = user.map_or(String::new(), |user| format!("[Service]\nUser={user}\n"));
    let reachable = reachable(volume.steward_metrics.as_ref(), true);
    format!("{ORIGIN}{user}{reachable}")
}

/// Lets a service that serves metrics on a port be asked on the loopback; nothing else of the network is open to it.
fn reachable(metrics: Option<&egeria_http::Address>, families: bool) -> String {
    match (metrics, families) {
        (Some(egeria_http::Address::Port(_)), true) => {
            "[Service]\nRestrictAddressFamilies=AF_INET AF_INET6\nIPAddressAllow=localhost\n"
        }
        (Some(egeria_http::Address::Port(_)), false) => "[Service]\nIPAddressAllow=localhost\n",
        _ => "",
    }
    .to_owned()
}

/// A word of a list in a unit: quoted, and no specifier.
fn quoted(path: &Path) -> String {
    let text = path.display().to_string();
    let text = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{}\"", text.replace('%', "%%"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_stay_one_word_of_a_unit() {
        assert_eq!(quoted(Path::new("/a b/\"c\"\\%d")), r#""/a b/\"c\"\\%%d""#);
    }
}
