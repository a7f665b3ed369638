//! The memory of processes.

use std::io;
use std::sync::atomic::Ordering;
use std::time::Duration;

use egeria_cli::failure::{Failure, Outcome, reason};
use egeria_cli::progress::Progress;
use egeria_machine::format_bytes;
use egeria_pages::migrate::{self, Migration, Order, Target};
use egeria_pages::{NodeBytes, areas, room};
use egeria_proc::task;

use super::document::{Bytes, Document, OfProcess, of_nodes};
use super::wish::Wish;
use crate::commands::look::where_is::memory::unseen;

/// Moves the memory of each, one after the other.
pub(super) fn run(processes: &[u32], wish: &Wish<'_>) -> Outcome<Document> {
    let mut began = Vec::new();
    // All or none: a process id that does not exist is a mistake of the caller.
    for process_id in processes {
        let Some(start_ticks) = task::began(*process_id) else {
            return Err(Failure::new(format!(
                "there is no process {process_id}; check with `ps`"
            )));
        };
        check_room(*process_id, wish)?;
        began.push((*process_id, start_ticks));
    }
    let mut all = migrate::Outcome::default();
    let mut document = Document {
        kind: "processes",
        complete: true,
        ..Document::default()
    };
    for (process_id, start_ticks) in began {
        let target = Target::Nodes(wish.nodes.to_vec());
        let order = Order {
            also_shared: wish.also_mapped,
            max_bytes: wish.max_bytes,
            ..Order::of(process_id, start_ticks, target)
        };
        let name = task::name(process_id, process_id);
        let done = bring(&order, wish)?;
        all.add(&done.outcome);
        document.complete &= done.outcome.unfinished() == 0 && !done.is_cut;
        let done = OfProcess::new(process_id, name, &done);
        document.processes.push(done);
    }
    document.bytes = Bytes::from(&all);
    document.nodes = of_nodes(&all.by_node);
    Ok(document)
}

/// Refuses what would push out memory of other programs.
fn check_room(process_id: u32, wish: &Wish<'_>) -> Outcome {
    let areas = areas::of(process_id).map_err(|error| unseen(process_id, &error))?;
    let mut by_node = NodeBytes::default();
    for (node, bytes) in areas.into_iter().flat_map(|area| area.bytes) {
        by_node.add(node, bytes);
    }
    let [node] = wish.nodes else { return Ok(()) };
    let wanted = by_node.total() - by_node.of(*node);
    let wanted = wanted.min(wish.max_bytes);
    match room::of(*node) {
        Some(room) if wanted > room => Err(Failure::new(format!(
            "node {} has room for {}, and should get {} of process {process_id}; give --max, or --spread it",
            node.0,
            format_bytes(room),
            format_bytes(wanted)
        ))),
        _ => Ok(()),
    }
}

/// Works with a progress bar, until done or a signal.
fn bring(order: &Order, wish: &Wish<'_>) -> Outcome<Migration> {
    const LOOK: Duration = Duration::from_millis(20);
    let shared = migrate::Progress::default();
    let bar = Progress::bar("moving");
    let done = std::thread::scope(|scope| {
        let work = scope.spawn(|| migrate::run(order, wish.machine, &shared));
        while !work.is_finished() {
            std::thread::sleep(LOOK);
            bar.advance(
                shared.done_bytes.load(Ordering::Relaxed),
                shared.all_bytes.load(Ordering::Relaxed),
            );
            if wish.signals.check().is_err() {
                shared.stop.store(true, Ordering::Relaxed);
            }
        }
        work.join()
    });
    drop(bar);
    wish.signals.check()?;
    let done = done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
    done.map_err(|error| failure(order, &error))
}

fn failure(order: &Order, error: &io::Error) -> Failure {
    let process_id = order.process_id;
    if task::began(process_id) != Some(order.start_ticks) {
        return Failure::new(format!(
            "process {process_id} ended before its memory was moved; name one that lives"
        ));
    }
    let hint = match error.raw_os_error() {
        Some(libc::ESRCH) => "it has none of its own (a kernel thread, or one that just ended)",
        Some(libc::EPERM) if order.also_shared => {
            "--mapped needs root, or CAP_SYS_NICE; without it, what is its own is moved"
        }
        Some(libc::EPERM) => {
            "run as root (in a container: with CAP_SYS_PTRACE and a seccomp profile that allows move_pages)"
        }
        Some(libc::EACCES | libc::EINVAL | libc::ENODEV) => {
            "its cpuset, or that of this command, may not use the node: see /proc/PID/status, Mems_allowed_list"
        }
        Some(libc::ENOSYS) => "this kernel has no NUMA support; see `egeria doctor`",
        _ => "see `egeria doctor`",
    };
    let cause = reason(error);
    Failure::new(format!(
        "cannot move memory of process {process_id}: {cause}; {hint}"
    ))
}
