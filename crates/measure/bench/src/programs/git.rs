//! git, the same everywhere.

use std::process::Command;

/// git that knows neither its user's nor the machine's settings.
pub(crate) fn quiet_git(mut command: Command) -> Command {
    command
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_TERMINAL_PROMPT", "0");
    for (name, value) in [
        ("NAME", "Egeria"),
        ("EMAIL", "egeria@localhost"),
        ("DATE", "1600000000 +0000"),
    ] {
        command
            .env(format!("GIT_AUTHOR_{name}"), value)
            .env(format!("GIT_COMMITTER_{name}"), value);
    }
    command.args(["-c", "gc.auto=0", "-c", "safe.directory=*"]);
    command
}
