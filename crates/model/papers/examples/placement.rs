//! What the whole planner makes of programs whose threads and memory lie badly: `placement [COUNT [SEED [FIRST]]]`;
//! `placement show NUMBER SEED` shows one; with `EACH` set, each is printed as soon as it is known.

use egeria_papers::regret::placement::{Case, Placement, scene};
use egeria_papers::regret::speed;
use egeria_policy::planner::System;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let is_one = words.first().is_some_and(|word| word == "show");
    if is_one {
        words.remove(0);
    }
    let number = |at: usize, otherwise: u64| match words.get(at) {
        Some(word) => word.parse::<u64>(),
        None => Ok(otherwise),
    };
    if is_one {
        return show(number(0, 0)?, number(1, 1)?);
    }
    let (count, seed, first) = (number(0, 2000)?, number(1, 1)?, number(2, 0)?);
    let mut cases: Vec<Case> = Vec::new();
    for number in first..first + count {
        let case = scene(seed, number)?.case(seed, number)?;
        if std::env::var_os("EACH").is_some() {
            eprintln!("{}", serde_json::to_string(&case)?);
        }
        cases.push(case);
    }
    println!("{}", serde_json::to_string_pretty(&Placement::of(&cases))?);
    Ok(())
}

fn show(number: u64, seed: u64) -> Result<()> {
    let scene = scene(seed, number)?;
    println!("{} {:?}", scene.machine.name, scene.faults);
    for files in &scene.workload.files {
        println!("{files:?}");
    }
    for threads in &scene.workload.threads {
        println!("{threads:?}");
    }
    let mut best = ("off", 1.0, scene.workload.clone());
    for (name, placed) in scene.others(seed, number) {
        let speed = scene.speed_of(&placed)?;
        if name != "random" {
            println!("{name}: {speed:.3}");
        }
        if speed > best.1 {
            best = (name, speed, placed);
        }
    }
    println!("best: {} {:.3}", best.0, best.1);
    for group in &best.2.threads {
        println!("  threads of {} on {:?}", group.name, group.start_nodes);
    }
    for files in &best.2.files {
        println!("  memory of {} on {:?}", files.name, files.nodes);
    }
    let off = scene.run(System::Off)?;
    let begin = std::time::Instant::now();
    let all = scene.run(System::All)?;
    let needed_s = begin.elapsed().as_secs_f64();
    println!("all: {:.3} {needed_s:.2} s", speed(&all, &off));
    for window in &all.windows {
        let rates = window.groups.iter();
        let rates: Vec<String> = rates
            .map(|group| format!("{:.3e} {:?}", group.operations_s, group.threads))
            .collect();
        println!("  {:.0} {}", window.end_s, rates.join("; "));
        for step in window.moves.iter().take(4) {
            let (from, to) = (step.from.0, step.to.0);
            println!("    {} {from} -> {to}: {}", step.thread, step.why);
        }
        if !window.moves.is_empty() {
            println!("    {} moves", window.moves.len());
        }
        for step in &window.steps {
            println!("    {step}");
        }
    }
    for line in &all.nothing_because {
        println!("  nothing: {line}");
    }
    Ok(())
}
