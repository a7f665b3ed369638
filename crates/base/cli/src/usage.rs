//! Errors of the command line, in one line.

use std::process::ExitCode;

use clap::error::{Error, ErrorKind};
use clap::{Command, FromArgMatches};

use crate::failure::{Failure, Outcome};
use crate::output;

/// The `main` of the program of this name: does what its command line asks for. It keeps the status of children, also when the process
/// that started it ignored SIGCHLD.
pub fn start<A: FromArgMatches>(
    name: &'static str,
    mut command: Command,
    run: impl FnOnce(A) -> Outcome<ExitCode>,
) -> ExitCode {
    output::set_program(name);
    // SAFETY: the default action of SIGCHLD is none, and no other thread runs yet.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
    let matches = command.clone().try_get_matches();
    let arguments = matches.and_then(|matches| {
        A::from_arg_matches(&matches).map_err(|error| error.format(&mut command))
    });
    match arguments.map(run) {
        Ok(Ok(status)) => status,
        Ok(Err(failure)) => failure.report(),
        Err(error) => refuse(&error, &command),
    }
}

/// Says what is wrong with a command line in one line; prints help and version when asked for.
fn refuse(error: &Error, command: &Command) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            match output::print(error.render().to_string().as_bytes()) {
                Ok(()) => ExitCode::SUCCESS,
                Err(failure) => failure.report(),
            }
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            output::remark(&error.render().to_string());
            ExitCode::from(2)
        }
        _ => Failure::Usage(one_line(&error.render().to_string(), command)).report(),
    }
}

/// clap's text in one line: cause, the first tip, and where help is.
fn one_line(text: &str, command: &Command) -> String {
    let usage = text.lines().find_map(|line| line.strip_prefix("Usage: "));
    let body = text.split("\n\nUsage:").next().unwrap_or(text);
    let body = body
        .split("\n\nFor more information")
        .next()
        .unwrap_or(body);
    let lines: Vec<&str> = body
        .lines()
        .map(str::trim)
        .filter(|line| !line.is_empty())
        .collect();
    let (tips, cause): (Vec<&str>, Vec<&str>) =
        lines.iter().partition(|line| line.starts_with("tip: "));
    let cause = cause.join(" ");
    let cause = cause.strip_prefix("error: ").unwrap_or(&cause);
    let tip = tips.first().and_then(|tip| tip.strip_prefix("tip: "));
    let tip = tip.map_or(String::new(), |tip| format!("; {tip}"));
    format!("{cause}{tip}; see `{} --help`", command_of(usage, command))
}

/// `egeria mkfs` of `egeria mkfs [OPTIONS] --pool …`; without a usage line, from the typed arguments.
fn command_of(usage: Option<&str>, command: &Command) -> String {
    let is_letter = |c: char| c.is_ascii_lowercase() || c == '-';
    let is_word = |word: &&str| !word.starts_with('-') && word.chars().all(is_letter);
    let words: Vec<&str> = usage
        .unwrap_or("")
        .split_whitespace()
        .take_while(is_word)
        .collect();
    if !words.is_empty() {
        return words.join(" ");
    }
    let name = command.get_name();
    let typed = std::env::args_os()
        .nth(1)
        .and_then(|word| word.into_string().ok())
        .filter(|word| command.find_subcommand(word).is_some());
    typed.map_or(name.to_owned(), |word| format!("{name} {word}"))
}
