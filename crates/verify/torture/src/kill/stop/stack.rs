//! Where a stopped process is, as `gdb` tells it.

use egeria_harness::process;
use std::process::Command;
use std::time::Duration;

/// Names of functions, innermost first.
pub type Stack = Vec<String>;

/// How long `gdb` may take to read what it needs.
const LIMIT: Duration = Duration::from_secs(20);
/// Innermost functions that are told.
const DEPTH: usize = 14;

/// Where each thread of a process is, the main one last; nothing where that cannot be told.
pub fn of_process(process: u32) -> Vec<Stack> {
    let mut command = Command::new("gdb");
    command
        .args(["-nx", "-batch", "-ex", "set debuginfod enabled off"])
        .args(["-ex", "thread apply all bt 40", "-p", &process.to_string()])
        .env_remove("LD_PRELOAD");
    let told = process::run(&mut command, LIMIT, None);
    let told = told.map_or(String::new(), |told| told.stdout);
    let threads = told.split("\nThread ").skip(1);
    threads.map(functions).collect()
}

/// Functions of ours in what `gdb` prints, and which of the C library called from there.
fn functions(text: &str) -> Stack {
    let names = text.lines().filter_map(|line| {
        let frame = line.strip_prefix('#')?;
        let frame = frame.split_once(char::is_whitespace)?.1.trim_start();
        let frame = if frame.starts_with("0x") {
            frame.split_once(" in ")?.1
        } else {
            frame
        };
        let name = frame.split(" (").next()?.trim();
        let is_noise = name.is_empty() || name.contains("{closure") || name.starts_with("core::");
        (!is_noise).then(|| name.replace("egeria_engine::", ""))
    });
    names.take(DEPTH).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_read_from_what_gdb_prints() {
        let text = "warning: x\n#0  0x00007f in write () from /lib/libc.so.6\n\
                    #1  egeria_engine::volume::Volume::write (self=0x1) at a.rs:3\n\
                    #2  0x01 in core::ops::call () at b.rs\n#3  0x02 in main ()\n";
        assert_eq!(functions(text), ["write", "volume::Volume::write", "main"]);
        assert!(functions("no process").is_empty());
    }
}
