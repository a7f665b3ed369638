//! `egeria web`: a live page of nodes, threads, and what a steward does.

mod history;
mod site;
mod source;
mod state;

use std::sync::atomic::Ordering;
use std::time::Duration;

use clap::Args;
use serde::Serialize;

use super::watched::Watched;
use egeria_cli::failure::Outcome;
use egeria_cli::output::Format;
use egeria_cli::signals::Signals;
use egeria_http::{Address, Server};
use site::LivePage;
use source::Source;

/// How often is looked for what is new.
const LOOK: Duration = Duration::from_millis(200);

/// Arguments of `egeria web`.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  egeria web
  egeria web /mnt/pmem0/pool --listen 8080
  sudo egeria web --all
  egeria web --listen /run/user/1000/egeria-web

Serves one page until it is interrupted: nodes and the traffic between them,
threads, what was moved, why, and what it brought, and the last hour. It shows
what `egeria top` shows: the decision log of the steward at work on the volume
of POOL, or else its counters; without POOL the log of the steward at work; with
--pid, --cgroup or --all programs on any file system. It changes nothing, loads
nothing from elsewhere, and can be reached from this machine only: from another
one, through `ssh -L 9466:localhost:9466`. JSON: address. The fields of /state:
docs/reference/web.md.")]
pub struct Arguments {
    #[command(flatten)]
    watched: Watched,
    /// Where the page is: a port of the loopback, or a unix socket
    #[arg(long, value_name = "PORT|IP:PORT|PATH", default_value = "9466", value_parser = Address::parse)]
    listen: Address,
}

#[derive(Serialize)]
struct Document {
    address: String,
}

/// Serves the page until a signal asks to stop.
pub fn run(arguments: &Arguments, format: Format) -> Outcome {
    let signals = Signals::install()?;
    arguments.watched.check()?;
    let mut source = Source::of(&arguments.watched)?;
    let page = LivePage::default();
    page.update(&mut source)?;
    let what = ("the page", "--listen");
    let server = Server::start(&arguments.listen, what, Box::new(page.clone()))?;
    let address = match server.address() {
        Address::Port(port) => format!("http://{port}/"),
        Address::Socket(path) => path.display().to_string(),
    };
    format.print(&Document { address }, |document| {
        format!("{}  (Ctrl-C ends it)", document.address)
    })?;
    while !signals.stop_flag().load(Ordering::Relaxed) {
        std::thread::sleep(LOOK);
        page.update(&mut source)?;
    }
    Ok(())
}
