//! What the whole planner loses over random workloads: `regret [COUNT [SEED [FIRST]]]`; `regret papers` over those of the
//! papers; `regret show NUMBER SEED` shows one; with `EACH` set, each is printed as soon as it is known.

use egeria_papers::regret::{Case, RIVALS, Regret, case, published, random, speed};
use egeria_policy::planner::System;
use egeria_sim::Options;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

fn main() -> Result<()> {
    let mut words: Vec<String> = std::env::args().skip(1).collect();
    let is_one = words.first().is_some_and(|word| word == "show");
    if is_one {
        words.remove(0);
    }
    if words.first().is_some_and(|word| word == "papers") {
        let all = published()?.into_iter();
        let cases = all.map(|(machine, workload, place)| case(&machine, &workload, place));
        let cases = cases.collect::<std::result::Result<Vec<Case>, _>>()?;
        println!("{}", serde_json::to_string_pretty(&Regret::of(cases))?);
        return Ok(());
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
        let (machine, workload, allocation) = random(seed, number)?;
        let case = case(&machine, &workload, allocation)?;
        if std::env::var_os("EACH").is_some() {
            eprintln!("{number} {}", serde_json::to_string(&case)?);
        }
        cases.push(case);
    }
    println!("{}", serde_json::to_string_pretty(&Regret::of(cases))?);
    Ok(())
}

fn show(number: u64, seed: u64) -> Result<()> {
    let (machine, workload, allocation) = random(seed, number)?;
    println!("{} {allocation:?}", machine.name);
    for (files, threads) in workload.files.iter().zip(&workload.threads) {
        println!("{files:?}\n  {threads:?}");
    }
    let run = |system: System| {
        let options = Options {
            allocation,
            ..Options::of(system)
        };
        egeria_sim::run(&machine, &workload, &options)
    };
    let off = run(System::Off)?;
    for system in RIVALS.into_iter().chain([System::All]) {
        let begin = std::time::Instant::now();
        let outcome = run(system)?;
        let groups: Vec<String> = outcome
            .groups
            .iter()
            .map(|group| format!("{:.3e}", group.bytes_s))
            .collect();
        println!(
            "{system}: {:.3} ({}) {:.2} s",
            speed(&outcome, &off),
            groups.join(" "),
            begin.elapsed().as_secs_f64()
        );
        if system != System::All && std::env::var_os("EVERY").is_none() {
            continue;
        }
        for window in &outcome.windows {
            let is_last = window.end_s >= workload.seconds * 0.999;
            let is_quiet = window.moves.is_empty() && window.steps.is_empty() && !is_last;
            if is_quiet && std::env::var_os("WINDOWS").is_none() {
                continue;
            }
            let rates: Vec<String> = window
                .groups
                .iter()
                .map(|group| format!("{:.3e} {:?}", group.operations_s, group.threads))
                .collect();
            println!("  {:.1} {}", window.end_s, rates.join("; "));
            for step in window.moves.iter().take(4) {
                println!(
                    "    {} {} -> {}: {}",
                    step.thread, step.from.0, step.to.0, step.why
                );
            }
            println!("    {} moves", window.moves.len());
            for step in &window.steps {
                println!("    {step}");
            }
        }
    }
    Ok(())
}
