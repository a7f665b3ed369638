//! Manual pages, generated from the command line itself: a subcommand that every program here has.

use std::path::PathBuf;

use clap::Args;
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
    files: Vec<PathBuf>,
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
            .map(|file| format!("{}\n", file.display()))
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

fn write_pages(command: clap::Command, directory: &std::path::Path) -> Outcome<Document> {
    let failed = |error| {
        Failure::io(
            "write manual pages to",
            directory,
            &error,
            "choose a directory you may write to",
        )
    };
    std::fs::create_dir_all(directory).map_err(failed)?;
    clap_mangen::generate_to(command.clone(), directory).map_err(failed)?;
    let mut files = Vec::new();
    page_names(&command, command.get_name(), &mut files);
    Ok(Document {
        files: files
            .iter()
            .map(|name| directory.join(name))
            .filter(|file| file.exists())
            .collect(),
        page: None,
    })
}

/// Files that pages of a command and of those below it are written to.
fn page_names(command: &clap::Command, name: &str, names: &mut Vec<String>) {
    names.push(format!("{name}.1"));
    for below in command.get_subcommands() {
        page_names(below, &format!("{name}-{}", below.get_name()), names);
    }
}
