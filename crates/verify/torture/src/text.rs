//! What the reports for people share: findings with the command that shows them again, and tables.

use comfy_table::{CellAlignment, Table, presets};
use egeria_machine::NamedPath;

/// Something wrong, and how to see it again.
pub(crate) fn wrong(what: &str, command: &str, file: Option<&NamedPath>) -> String {
    let again = file.map(|file| {
        let file = file.display();
        format!("  egeria-torture {command} --replay {file}\n")
    });
    format!("WRONG: {what}\n{}", again.unwrap_or_default())
}

/// For the end of the last line.
pub(crate) fn stopped(is_stopped: bool) -> &'static str {
    if is_stopped {
        " (stopped before the end)"
    } else {
        ""
    }
}

/// A table; without a head its first column is words, with one the first two are.
pub(crate) fn lined(rows: impl IntoIterator<Item = Vec<String>>, head: &[&str]) -> String {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED);
    if !head.is_empty() {
        table.set_header(head.iter().copied());
    }
    for row in rows {
        table.add_row(row);
    }
    let words = if head.is_empty() { 1 } else { 2 };
    for column in table.column_iter_mut().skip(words) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table.to_string()
}
