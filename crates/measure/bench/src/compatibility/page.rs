//! A page for the manual, with all programs.

use std::fmt::Write;

use super::report::{CompatibilityReport, Kill, ProgramRow, Verdict, share};

/// Markdown with a table for each kind of program.
pub fn page(report: &CompatibilityReport) -> String {
    let mut page = format!("{HEAD}\n{}\n\n{}\n", host(report), report.summary());
    let mut kinds: Vec<&str> = Vec::new();
    for row in &report.rows {
        if !kinds.contains(&row.kind.as_str()) {
            kinds.push(&row.kind);
        }
    }
    for kind in kinds {
        let rows = report.rows.iter().filter(|row| row.kind == kind);
        let _ = write!(page, "\n## {}\n\n{COLUMNS}", capital(kind));
        for row in rows {
            page.push_str(&line(row));
        }
    }
    page
}

const HEAD: &str = "\
# Programs that were tried

This page lists unmodified programs that run on a volume. `egeria-lab programs --page FILE` writes it, from what it
finds. Each program runs on three places: a directory on tmpfs, a volume's mount, and the same under the preload
library. On each place:

1. It does a fixed amount of work, which is timed.
2. Its own consistency check looks at the result.
3. If it promises to survive that, it works on until all of its processes are killed with SIGKILL at once. Then it
   starts again, and everything that it had acknowledged must be there.
4. The volume is unmounted, and `egeria check` must find nothing wrong.

Each program has a volume of its own, with one pool in DRAM. *Mount* and *library* say whether all of that succeeded.
*Works through the mount* means that the library was loaded, and that most calls reached the volume as requests of the
mount. *Speed* is the time on tmpfs divided by the time on the volume: 0.5 is half as fast. It is of one run and of a few
seconds at most, with starting and stopping the program, so it gives the order of magnitude.

`egeria-lab programs --only NAME` tries one of them, `--install` installs what is missing. To try a program of your own,
write a job file, as in `crates/measure/bench/src/compatibility/jobs`, and name it with `--job`.
";

const COLUMNS: &str = "\
| program | mount | library | killed | speed, mount | speed, library | what is checked |
| --- | --- | --- | --- | --- | --- | --- |
";

fn host(report: &CompatibilityReport) -> String {
    format!(
        "The figures are of this machine: {}. Programs were killed {} s after their first acknowledgement.",
        report.host, report.load_s
    )
}

fn line(row: &ProgramRow) -> String {
    let version = row
        .version
        .as_ref()
        .map_or(String::new(), |version| format!(" {version}"));
    let verdict = |verdict: Option<Verdict>| verdict.map_or("", Verdict::words);
    let killed = match row.killed {
        Some(Kill::Survives) => "survives",
        Some(Kill::Loses) => "**loses**",
        None => "–",
    };
    let cells = [
        format!("{}{version}", row.program),
        verdict(row.mount).to_owned(),
        verdict(row.library).to_owned(),
        killed.to_owned(),
        share(row.speed_of_tmpfs.mount),
        share(row.speed_of_tmpfs.library),
        words(row),
    ];
    let cells = cells.map(|cell| cell.replace('|', "\\|").replace('\n', " "));
    format!("| {} |\n", cells.join(" | "))
}

fn words(row: &ProgramRow) -> String {
    let mut words = row.checks.clone();
    if !row.survives.is_empty() {
        let _ = write!(words, "; killed: {}", row.survives);
    }
    if !row.note.is_empty() {
        let _ = write!(words, ". *{}*", capital(&row.note));
    }
    words
}

fn capital(text: &str) -> String {
    let mut characters = text.chars();
    let first = characters
        .next()
        .map(|first| first.to_uppercase().to_string());
    first.unwrap_or_default() + characters.as_str()
}
