//! Output of commands: one JSON document, or text for people, on stdout; remarks on stderr.

use std::io::{self, Write};
use std::path::Path;

use clap::Args;
use comfy_table::{
    CellAlignment, ColumnConstraint, ContentArrangement, Table, TableComponent, presets,
};
use serde::Serialize;

use crate::failure::{Failure, Outcome};
pub use crate::stderr::{complain, remark, set_program};
pub use egeria_machine::{printable, printable_lines};

/// Width of [`page_table`].
const PAGE_COLUMNS: u16 = 100;

/// Whether `--json` was given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Text for people.
    Human,
    /// One JSON document with raw bytes and stable field names.
    Json,
}

/// The option of a program that says how to print.
#[derive(Args, Debug)]
#[group(skip)]
pub struct FormatOption {
    /// Print one JSON document (bytes, ns, stable field names) and nothing else on stdout
    #[arg(long, global = true)]
    json: bool,
}

impl FormatOption {
    /// How to print.
    pub fn format(&self) -> Format {
        if self.json {
            Format::Json
        } else {
            Format::Human
        }
    }
}

impl Format {
    /// Prints `document` as JSON, or the text that `human` makes of it, without bytes that control terminals.
    ///
    /// # Errors
    /// When stdout cannot be written.
    pub fn print<T: Serialize>(self, document: &T, human: impl FnOnce(&T) -> String) -> Outcome {
        let mut text = match self {
            Format::Human => printable_lines(&human(document)),
            Format::Json => to_json(document)?,
        };
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        print(text.as_bytes())
    }
}

/// The document as indented JSON.
///
/// # Errors
/// When it holds values that JSON does not have; no document of a command does.
pub fn to_json<T: Serialize>(document: &T) -> Outcome<String> {
    serde_json::to_string_pretty(document).map_err(|error| {
        Failure::new(format!(
            "cannot print it as JSON: {error}; please report this"
        ))
    })
}

/// Writes to stdout. If the reader has closed it, the result is [`Failure::BrokenPipe`].
///
/// # Errors
/// When stdout cannot be written.
pub fn print(text: &[u8]) -> Outcome {
    let mut stdout = io::stdout().lock();
    match stdout.write_all(text).and_then(|()| stdout.flush()) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Err(Failure::BrokenPipe),
        Err(error) => Err(Failure::new(format!(
            "cannot write to stdout: {}; redirect it elsewhere",
            crate::failure::reason(&error)
        ))),
    }
}

/// Prints text for people, without bytes that control terminals.
///
/// # Errors
/// Those of [`print`].
pub fn print_text(text: &str) -> Outcome {
    print(printable_lines(text).as_bytes())
}

/// Writes a page into a file of its own.
///
/// # Errors
/// When it cannot be written.
pub fn write_page(path: &Path, page: &str) -> Outcome {
    const HINT: &str = "name a file of your own in a directory that can be written";
    egeria_files::write(path, page.as_bytes())
        .map_err(|error| Failure::io("write", path, &error, HINT))
}

/// A table with these headers; columns are right-aligned if their header begins with `>`.
pub fn table<H: AsRef<str>>(headers: &[H], rows: Vec<Vec<String>>) -> String {
    laid_out(headers, rows).trim_fmt()
}

/// The same for long sentences in the last column: no line is wider than a page, and cells are broken between words.
pub fn page_table<H: AsRef<str>>(headers: &[H], rows: Vec<Vec<String>>) -> String {
    let mut table = laid_out(headers, rows);
    table.set_content_arrangement(ContentArrangement::Dynamic);
    table.set_width(PAGE_COLUMNS);
    for column in 0..headers.len().saturating_sub(1) {
        if let Some(column) = table.column_mut(column) {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    table.trim_fmt()
}

fn laid_out<H: AsRef<str>>(headers: &[H], rows: Vec<Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING);
    table.set_style(TableComponent::HeaderLines, '─');
    table.set_style(TableComponent::MiddleHeaderIntersections, '─');
    table.set_header(
        headers
            .iter()
            .map(|header| header.as_ref().trim_start_matches('>')),
    );
    for (column, header) in headers.iter().enumerate() {
        if header.as_ref().starts_with('>')
            && let Some(column) = table.column_mut(column)
        {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table.add_rows(rows);
    table
}
