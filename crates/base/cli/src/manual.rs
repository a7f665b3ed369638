//! Manual pages, generated from the command line itself: a subcommand that every program here has.

use std::io;
use std::path::{Path, PathBuf};

use clap::Args;
use egeria_machine::NamedPath;
use serde::Serialize;

use crate::failure::{Failure, Outcome};
use crate::output::Format;

/// Arguments of the subcommand.
// Programs flatten it into arguments of the same name, and names of groups are unique.
#[derive(Args, Debug)]
#[group(skip)]
pub struct Arguments {
    /// Write the pages of all commands into this directory
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
}

#[derive(Serialize)]
struct Document {
    /// Pages written.
    files: Vec<NamedPath>,
    /// The page itself, when it is not written.
    page: Option<String>,
}

/// Prints or writes the pages of `command`.
///
/// # Errors
/// When a page cannot be written.
pub fn run(arguments: &Arguments, command: clap::Command, format: Format) -> Outcome {
    let document = match &arguments.out {
        Some(directory) => write_pages(command, directory)?,
        None => one_page(command)?,
    };
    format.print(&document, |document| match &document.page {
        Some(page) => page.clone(),
        None => document
            .files
            .iter()
            .map(|file| format!("{file}\n"))
            .collect(),
    })
}

fn one_page(command: clap::Command) -> Outcome<Document> {
    let mut page = Vec::new();
    let rendered = clap_mangen::Man::new(command).render(&mut page);
    rendered.map_err(|error| {
        Failure::new(format!(
            "cannot render the page: {error}; please report this"
        ))
    })?;
    let page = String::from_utf8_lossy(&page).into_owned();
    Ok(Document {
        files: Vec::new(),
        page: Some(page),
    })
}

fn write_pages(command: clap::Command, directory: &Path) -> Outcome<Document> {
    let failed = |error| {
        Failure::io(
            "write manual pages to",
            directory,
            &error,
            "choose a directory you may write to",
        )
    };
    std::fs::create_dir_all(directory).map_err(failed)?;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let mut files = Vec::new();
    write_page(command, directory, &mut files).map_err(failed)?;
    Ok(Document { files, page: None })
}

/// The page of a command, and those of the commands below it.
fn write_page(
    command: clap::Command,
    directory: &Path,
    files: &mut Vec<NamedPath>,
) -> io::Result<()> {
    let below: Vec<clap::Command> = command.get_subcommands().cloned().collect();
    if command.is_hide_set() {
        return Ok(());
    }
    let page = clap_mangen::Man::new(command);
    let mut text = Vec::new();
    page.render(&mut text)?;
    let path = directory.join(page.get_filename());
    egeria_files::write(&path, &text)?;
    files.push(path.into());
    for command in below {
        write_page(command, directory, files)?;
    }
    Ok(())
}
