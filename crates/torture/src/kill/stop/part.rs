//! The parts that the worker program plays here: one that is stopped, and those who look on.

use super::board::{Board, copies_of, look_of, threads_of};
use super::calls::{Call, Eyes, Hands, Look, furnish};
use crate::kill::crew::Way;
use crate::kill::files::Files;
use crate::kill::plan::Dice;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Between two looks of a thread, so that all together leave the CPUs idle most of the time.
const PAUSE: Duration = Duration::from_millis(10);
/// Make what everybody uses, and go.
pub fn set_up<F: Files>(files: &F) -> Result<(), String> {
    furnish(files).map_err(|errno| format!("cannot make the files: {errno}"))
}

/// Makes calls now and then; when it is to be stopped, one kind of call after the other without a pause, so that any
/// instant is in the middle of one.
pub fn work<F: Files>(files: &F, board: &Board, way: Way, index: usize) -> Result<(), String> {
    let page = board.worker(index);
    let hands = Hands::new(files, index);
    let mut hands = hands.map_err(|errno| format!("cannot open the files: {errno}"))?;
    let mut dice = Dice(index as u64, page.calls.load(Ordering::Relaxed));
    while !board.is_ended() {
        let drawn = Call::drawn(way, &mut dice);
        loop {
            let call = hands.possible(drawn);
            page.begin(call);
            let outcome = hands.take(call, &mut dice);
            page.end();
            if let Err(errno) = outcome {
                eprintln!("{}: {errno}", call.name());
                page.faults.fetch_add(1, Ordering::Relaxed);
            }
            if !page.is_ordered() {
                break;
            }
        }
        std::thread::sleep(Duration::from_micros(dice.below(1000)));
    }
    Ok(())
}

/// Threads that look on, each in one way.
pub fn look_on<F: Files + Sync>(
    files: impl Fn() -> F + Sync,
    board: &Board,
    way: Way,
    first: usize,
) -> Result<(), String> {
    std::thread::scope(|scope| {
        let start = |index| {
            let files = &files;
            scope.spawn(move || {
                look(
                    &files(),
                    board,
                    look_of(copies_of(way), index),
                    first + index,
                )
            })
        };
        let threads: Vec<_> = (0..threads_of(way)).map(start).collect();
        let mut ends = threads.into_iter().map(|thread| thread.join());
        ends.try_for_each(|end| end.unwrap_or_else(|_| Err("a thread panicked".to_owned())))
    })
}

fn look<F: Files>(files: &F, board: &Board, look: Look, number: usize) -> Result<(), String> {
    let eyes = Eyes::new(files, number);
    let mut eyes = eyes.map_err(|errno| format!("cannot open the files: {errno}"))?;
    let page = board.observer(number);
    while !board.is_ended() {
        page.begin();
        let outcome = eyes.take(look);
        page.end();
        if let Err(errno) = outcome {
            eprintln!("{}: {errno}", look.name());
            page.faults.fetch_add(1, Ordering::Relaxed);
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}
