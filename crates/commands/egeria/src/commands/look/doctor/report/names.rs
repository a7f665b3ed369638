//! What the stand-ins of a report are for, where its sender wants to say so.

use egeria_cli::output::{self, printable};
use egeria_machine::NamedPath;
use egeria_proc::task;
use serde::Serialize;

use super::observe;
use crate::account::Account;
use crate::commands::look::diagnose::Document as Placement;
use crate::commands::look::diagnose::subject::Subject;

/// Rows shown to people of each table.
const SHOWN: usize = 100;

/// What stand-ins are for.
#[derive(Serialize)]
pub(super) struct Names {
    /// The heaviest programs, as far as they still run.
    programs: Vec<Program>,
    /// Programs and threads.
    names: Vec<Named>,
    files: Vec<File>,
}

#[derive(Serialize)]
struct Program {
    stand_in: String,
    process_id: u32,
    user: Option<String>,
    unit: Option<String>,
    command: String,
}

#[derive(Serialize)]
struct Named {
    stand_in: String,
    name: String,
}

#[derive(Serialize)]
struct File {
    stand_in: String,
    path: NamedPath,
}

impl Names {
    pub(super) fn of(observed: &observe::Names, placement: &Placement) -> Names {
        let rows = placement.programs.iter().map(|program| &program.row);
        let programs = rows.map(|row| {
            let subject = Subject::of(row.process_id);
            let users = task::user_ids(row.process_id, row.process_id);
            Program {
                stand_in: row.name.clone(),
                process_id: row.process_id,
                user: users.map(|[user, ..]| Account::of(user).to_string()),
                unit: subject.unit,
                command: subject.command,
            }
        });
        let names = observed.stand_ins.names().into_iter();
        let files = observed.files.iter().map(|(file, path)| File {
            stand_in: format!("file-{}", file.inode),
            path: path.clone().into(),
        });
        Names {
            programs: programs.collect(),
            names: names
                .map(|(stand_in, name)| Named { stand_in, name })
                .collect(),
            files: files.collect(),
        }
    }

    /// Tables for people.
    pub(super) fn text(&self) -> String {
        let unknown = || "unknown".to_owned();
        let programs = self.programs.iter().map(|program| {
            vec![
                program.process_id.to_string(),
                program.stand_in.clone(),
                printable(&program.user.clone().unwrap_or_else(unknown)),
                printable(program.unit.as_deref().unwrap_or("none")),
                printable(&program.command),
            ]
        });
        let names = self
            .names
            .iter()
            .map(|named| vec![named.stand_in.clone(), printable(&named.name)]);
        let files = self
            .files
            .iter()
            .map(|file| vec![file.stand_in.clone(), file.path.to_string()]);
        let tables = [
            table(
                &[">process", "stand-in", "user", "unit", "command"],
                programs.collect(),
            ),
            table(&["stand-in", "name"], names.collect()),
            table(&["stand-in", "file"], files.collect()),
        ];
        tables.concat()
    }
}

fn table(headers: &[&str], mut rows: Vec<Vec<String>>) -> String {
    let more = rows.len().saturating_sub(SHOWN);
    rows.truncate(SHOWN);
    let more = match more {
        0 => String::new(),
        more => format!("and {more} more (--json has all)\n"),
    };
    format!("{}\n{more}\n", output::table(headers, rows))
}
