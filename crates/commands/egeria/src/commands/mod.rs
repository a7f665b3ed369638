//! One small file per command, in a folder for each kind of work.

pub mod completions;
pub mod control;
pub mod look;
pub mod machines;
pub mod man;
mod one_node;
mod scope;
pub mod volumes;
mod whole_file;

use std::process::ExitCode;

use clap::CommandFactory;

use control::{move_pages, replay, steward, trace, trial, warm, weights};
use look::{diagnose, doctor, explain, top, web, where_is};
use machines::{machine, sim};
use volumes::{
    check, df, mkfs, mount, pool, quota, receive, run, scrub, send, stat, umount, units, upgrade,
};

use crate::arguments::{Arguments, Command};
use egeria_cli::failure::Outcome;

/// Does what the command line asks for.
pub fn run(arguments: Arguments) -> Outcome<ExitCode> {
    let format = arguments.output.format();
    match arguments.command {
        Command::Run(run) => return run::run(run, format),
        Command::Check(check) => return check::run(&check, format),
        Command::Pool(pool) => return pool::run(pool, format),
        Command::Quota(quota) => return quota::run(quota, format),
        Command::Scrub(scrub) => return scrub::run(&scrub, format),
        Command::Machine(machine) => return machine::run(&machine, format),
        Command::Mount(mount) => return mount::run(mount, format),
        Command::Df(df) => return df::run(&df, format),
        Command::Diagnose(diagnose) => return diagnose::run(&diagnose, format),
        Command::Doctor(doctor) => return doctor::run(&doctor, format),
        Command::Move(moved) => return move_pages::run(&moved, format),
        Command::Trial(trial) => return trial::run(&trial, format),
        Command::Warm(warm) => return warm::run(&warm, format),
        Command::Mkfs(mkfs) => mkfs::run(mkfs, format),
        Command::Send(send) => send::run(&send, format),
        Command::Receive(receive) => receive::run(&receive, format),
        Command::Upgrade(upgrade) => upgrade::run(&upgrade, format),
        Command::Units(units) => units::run(&units, format),
        Command::Umount(umount) => umount::run(&umount, format),
        Command::Where(place) => where_is::run(&place, format),
        Command::Stat(stat) => stat::run(&stat, format),
        Command::Weights(weights) => weights::run(&weights, format),
        Command::Steward(steward) => steward::run(&steward, format),
        Command::Explain(explain) => explain::run(&explain, format),
        Command::Top(top) => top::run(&top, format),
        Command::Web(web) => web::run(&web, format),
        Command::Trace(trace) => trace::run(&trace, format),
        Command::Replay(replay) => replay::run(&replay, format),
        Command::Sim(sim) => sim::run(&sim, format),
        Command::Completions(completions) => {
            completions::run(&completions, Arguments::command(), format)
        }
        Command::Man(man) => man::run(&man, Arguments::command(), format),
    }?;
    Ok(ExitCode::SUCCESS)
}
