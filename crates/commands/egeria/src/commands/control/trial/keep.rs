//! How to keep a policy that helps.

use std::ffi::OsString;
use std::path::Path;

use egeria_policy::planner::System;

use super::copy::with_directory;

/// A command line, and the drop-in of a unit. `more` are further arguments of the steward.
pub(super) fn command(policy: System, more: &[String], command: &[OsString]) -> String {
    let run = ["egeria", "run", "--no-volume", "--policy"].map(str::to_owned);
    let policy = [policy.to_string()];
    let words = run.iter().chain(&policy).chain(more).cloned();
    let words = words.chain(["--".to_owned()]);
    let command = command
        .iter()
        .map(|word| word.to_string_lossy().into_owned());
    let words: Vec<String> = words.chain(command).collect();
    let line = |quote: fn(&str) -> String| -> String {
        let quoted: Vec<String> = words.iter().map(|word| quote(word)).collect();
        quoted.join(" ")
    };
    let own = std::env::current_exe().unwrap_or_else(|_| "/usr/bin/egeria".into());
    let in_unit = line(for_systemd);
    let in_unit = in_unit.replacen("egeria", &for_systemd(&own.to_string_lossy()), 1);
    format!(
        "{}\n\nas a service, with `systemctl edit UNIT`:\n\n[Service]\nExecStart=\nExecStart={in_unit}\n",
        line(for_shell)
    )
}

/// Files in the page cache of nodes, before the program starts.
pub(super) fn warm(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| for_shell(word)).collect();
    format!(
        "egeria warm {}\n\nbefore the program starts; the kernel drops pages when it needs the memory\n\n",
        words.join(" ")
    )
}

/// A volume with the directory, and the command on it.
pub(super) fn volume(
    policy: System,
    more: &[String],
    directory: &Path,
    command: &[OsString],
) -> String {
    const MOUNT: &str = "/mnt/egeria";
    let name = directory.file_name().unwrap_or_default();
    let place = Path::new(MOUNT).join(name);
    let command = with_directory(command, &place);
    let command = command
        .iter()
        .map(|word| for_shell(&word.to_string_lossy()));
    let command: Vec<String> = command.collect();
    let steward = match policy {
        System::Off => String::new(),
        policy => {
            let words = [policy.to_string()].into_iter().chain(more.iter().cloned());
            let words: Vec<String> = words.map(|word| for_shell(&word)).collect();
            format!(
                "egeria steward /mnt/pmem0/pool --policy {} &\n",
                words.join(" ")
            )
        }
    };
    format!(
        "egeria mkfs --pool 0:/mnt/pmem0/pool:SIZE --pool 1:/mnt/pmem1/pool:SIZE\n\
         egeria mount /mnt/pmem0/pool {MOUNT}\n\
         cp -ax {} {MOUNT}\n{steward}{}\n\n\
         the trial had its volume in DRAM, where data does not outlive the machine; pools on other media give other times. \
         With LD_PRELOAD as `egeria run` sets it, the program uses the volume as it did here\n",
        for_shell(&directory.to_string_lossy()),
        command.join(" ")
    )
}

/// The steward of a service, and how it is configured as a service of its own. `named` are its arguments that name the
/// service.
pub(super) fn service(policy: System, more: &[String], named: &[String]) -> String {
    let words = ["egeria", "steward", "--policy"].map(str::to_owned);
    let policy_word = [policy.to_string()];
    let words = words.iter().chain(&policy_word).chain(more).chain(named);
    let words: Vec<String> = words.map(|word| for_shell(word)).collect();
    let line = words.join(" ");
    let [option, group] = named else {
        return format!("{line}\n");
    };
    if option != "--cgroup" {
        return format!("{line}\n");
    }
    format!(
        "{line}\n\nas a service, in /etc/egeria/egeria.toml, with `systemctl enable --now egeria-steward`:\n\n[steward]\ncgroup = {group:?}\npolicy = \"{policy}\"\n"
    )
}

fn is_plain(word: &str) -> bool {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./=:,+@".contains(letter);
    !word.is_empty() && word.chars().all(is_plain)
}

fn for_shell(word: &str) -> String {
    if is_plain(word) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', r"'\''"))
}

/// As `ExecStart=` of a unit has it.
fn for_systemd(word: &str) -> String {
    if is_plain(word) {
        return word.to_owned();
    }
    let word = word.replace('\\', r"\\").replace('"', "\\\"");
    let word = word
        .replace('\n', r"\n")
        .replace('%', "%%")
        .replace('$', "$$");
    format!("\"{word}\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_survive_shells_and_units() {
        assert_eq!(for_shell("it's"), r"'it'\''s'");
        assert_eq!(for_shell("--a=b"), "--a=b");
        assert_eq!(for_shell(""), "''");
        assert_eq!(for_systemd("a \"$b\" 5%"), "\"a \\\"$$b\\\" 5%%\"");
        let command = ["sh", "-c", "sleep 1"].map(OsString::from);
        let more = ["--window".to_owned(), "500".to_owned()];
        let kept = super::command(System::All, &more, &command);
        let line = "egeria run --no-volume --policy all --window 500 -- sh -c 'sleep 1'\n";
        assert!(kept.starts_with(line), "{kept}");
        assert!(kept.contains("\nExecStart=\nExecStart=/"), "{kept}");
        assert!(kept.ends_with("-- sh -c \"sleep 1\"\n"), "{kept}");
    }

    #[test]
    fn a_service_keeps_its_steward() {
        let named = ["--cgroup", "/system.slice/db.service"].map(str::to_owned);
        let kept = service(System::Rl, &[], &named);
        let line = "egeria steward --policy rl --cgroup /system.slice/db.service\n";
        assert!(kept.starts_with(line), "{kept}");
        assert!(
            kept.contains("\ncgroup = \"/system.slice/db.service\"\npolicy = \"rl\"\n"),
            "{kept}"
        );
        let named = ["--pid", "4711"].map(str::to_owned);
        assert_eq!(
            service(System::All, &[], &named),
            "egeria steward --policy all --pid 4711\n"
        );
    }
}
