//! `egeria trial`: a command or a service measured with and without a steward, and what that says.

mod arguments;
mod cache;
mod copy;
mod keep;
mod runs;
mod service;
mod sides;
mod text;
mod tree;

use std::path::Path;
use std::process::ExitCode;

use egeria_cli::failure::{Failure, Outcome};
use egeria_cli::output::{self, Format};
use egeria_cli::signals::Signals;
use egeria_machine::Machine;
use egeria_policy::planner::System;
use egeria_steward::Scope;
use egeria_trial::answer::Answer;
use egeria_trial::commands::Measure;
use egeria_trial::metric::Metric;
use egeria_trial::report::Report;

pub use arguments::Arguments;
use copy::Copy;
use service::Named;
use sides::{Sides, Wish};

/// Runs the trial, and answers by the exit status as well.
pub fn run(arguments: &Arguments, format: Format) -> Outcome<ExitCode> {
    let wishes = wishes(arguments)?;
    let signals = Signals::install()?;
    let service = arguments.service.named()?;
    let measure = measure(arguments, service.is_some())?;
    egeria_proc::task::keep_many_open();
    let machine = arguments.copy.this_machine().resolve()?;
    let cache = arguments.cache.cache(&machine, &signals)?;
    let directory = arguments.copy.directory()?;
    check_nodes(&machine, &wishes, arguments.even_so)?;
    let page = arguments.report.as_deref();
    // A wrong path costs no run.
    page.map(|page| output::write_page(page, "")).transpose()?;
    let scope = match &service {
        Some(named) => named.scope.clone(),
        // This process, and what it starts.
        None => Scope::Tree(std::process::id()),
    };
    // What a killed trial left goes, whatever this one compares.
    egeria_scratch::remove_left_behind(Path::new(copy::MEMORY));
    let make_copy = |directory| Copy::make(&arguments.copy, directory, &signals);
    let mut sides = Sides {
        arguments: &arguments.steward,
        machine: &machine,
        scope,
        is_prepared: arguments.before.is_some(),
        cache,
        copy: None,
    };
    check_named(&wishes, &sides, directory.is_some())?;
    // What a steward of processes cannot do does not cost a copy.
    let (with_copy, without): (Vec<Wish>, Vec<Wish>) = wishes.iter().partition(|wish| wish.volume);
    sides.check(&without)?;
    sides.copy = directory.map(make_copy).transpose()?;
    sides.check(&with_copy)?;
    let tried = match &service {
        Some(named) => runs::of_service(arguments, &wishes, measure, (named, &sides), &signals),
        None => runs::of_command(arguments, &wishes, measure, &sides, &signals),
    };
    let mut report = tried.map_err(|error| interrupted(&signals, error))?;
    let verify = |copy: &Copy| copy.verify(&signals);
    report.copy = sides.copy.as_ref().map(verify).transpose()?;
    report.keep = keep(arguments, &wishes, service.as_ref(), &report);
    page.map(|page| output::write_page(page, &report.page()))
        .transpose()?;
    format.print(&report, text::human)?;
    Ok(ExitCode::from(match report.answer() {
        Answer::Better => 0,
        Answer::NoDifference => 3,
        Answer::Worse => 4,
        Answer::NotKnown => 5,
    }))
}

/// How to keep what helped; there is nothing to keep where nothing is the best.
fn keep(
    arguments: &Arguments,
    wishes: &[Wish],
    service: Option<&Named>,
    report: &Report,
) -> Option<String> {
    let best = wishes[report.best()?];
    if best == Wish::NOTHING {
        return None;
    }
    let more = arguments.steward.words(best.policy);
    let warmed = best.warm.then(|| keep::warm(&arguments.cache.words()));
    let rest = match service {
        _ if best.volume => {
            let directory = arguments.copy.volume.as_deref()?;
            keep::volume(best.policy, &more, directory, &arguments.command)
        }
        Some(named) if best.has_steward() => keep::service(best.policy, &more, &named.arguments),
        None if best.has_steward() => keep::command(best.policy, &more, &arguments.command),
        _ => String::new(),
    };
    Some(warmed.unwrap_or_default() + &rest)
}

fn interrupted(signals: &Signals, error: egeria_files::Error) -> Failure {
    if signals.check().is_err() {
        output::complain("interrupted; everything is restored, and nothing is claimed");
    }
    signals.or_failure(error)
}

fn wishes(arguments: &Arguments) -> Outcome<Vec<Wish>> {
    const MOST: usize = 8;
    let has_more = !arguments.cache.warm.is_empty() || arguments.copy.volume.is_some();
    let usual = (!has_more).then_some(System::All);
    let nothing = Wish::NOTHING;
    let named = [
        arguments
            .policy
            .or(usual)
            .map(|policy| Wish { policy, ..nothing }),
        (!arguments.cache.warm.is_empty()).then_some(Wish {
            warm: true,
            ..nothing
        }),
        (arguments.copy.volume.is_some()).then_some(Wish {
            volume: true,
            ..nothing
        }),
    ];
    let wishes = match &arguments.compare[..] {
        [] => [nothing]
            .into_iter()
            .chain(named.into_iter().flatten())
            .collect(),
        compared => compared.to_vec(),
    };
    if !(2..=MOST).contains(&wishes.len()) {
        return Err(Failure::Usage(format!(
            "a trial compares 2 to {MOST} sides; write --compare off,all"
        )));
    }
    // Without a steward no setting acts.
    for wish in wishes.iter().filter(|wish| wish.has_steward()) {
        arguments.steward.settings(wish.policy)?;
    }
    Ok(wishes)
}

/// Sides need the files or the directory that they are about, and these need a side.
fn check_named(wishes: &[Wish], sides: &Sides<'_>, has_directory: bool) -> Outcome {
    let warm = (
        wishes.iter().any(|wish| wish.warm),
        sides.cache.is_some(),
        "warm",
        "--warm FILE",
    );
    let volume = (
        wishes.iter().any(|wish| wish.volume),
        has_directory,
        "volume",
        "--volume DIR",
    );
    for (is_side, is_given, side, option) in [warm, volume] {
        if is_side != is_given {
            return Err(Failure::Usage(if is_side {
                format!("side {side} needs its data; give {option}")
            } else {
                format!("no side of --compare is {side}; leave {option} out, or name the side")
            }));
        }
    }
    Ok(())
}

fn measure(arguments: &Arguments, of_service: bool) -> Outcome<Measure> {
    let metric = arguments.metric.as_deref();
    let metric = metric.map(|text| Metric::parse(text, arguments.metric_kind));
    let metric = metric.transpose().map_err(Failure::Usage)?;
    let measure = match (&arguments.measure, metric) {
        (Some(number), _) => Measure::Number(number.clone()),
        (None, Some(metric)) => Measure::Metric(metric),
        (None, None) => Measure::WallTime,
    };
    if of_service && matches!(measure, Measure::Number(_)) {
        return Err(Failure::Usage(
            "what a service prints is not seen; name what it does with --metric".to_owned(),
        ));
    }
    if !of_service && matches!(measure, Measure::WallTime) && arguments.higher_is_better {
        return Err(Failure::Usage(
            "more wall time is not better; name what is, with --measure or --metric".to_owned(),
        ));
    }
    Ok(measure)
}

/// One node has no other to place anything on.
fn check_nodes(machine: &Machine, wishes: &[Wish], even_so: bool) -> Outcome {
    let is_placed = |wish: &&Wish| **wish != Wish::NOTHING;
    let mut acting = wishes.iter().filter(is_placed).peekable();
    // A file that is cached, and a volume, differ from what there was on one node as well.
    let is_idle = acting.peek().is_some() && acting.all(|wish| !wish.volume && !wish.warm);
    if machine.nodes.len() > 1 || even_so || !is_idle {
        return Ok(());
    }
    Err(Failure::new(
        "this machine has one node, so there is nothing to place here; --even-so compares anyway: what a steward's looking costs the command",
    ))
}
