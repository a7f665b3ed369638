//! A measured emulated machine compared with its file: figures, and where AsymSched puts programs on both.

use std::sync::atomic::{AtomicBool, Ordering};

use egeria_calibrate::{Difference, differences};
use egeria_cli::output;
use egeria_facts::{AccessWindow, NodeAccesses, ProcessAccesses, ProcessKey};
use egeria_machine::Machine;
use egeria_policy::asymsched::{Decision, PlacementPlan, Settings, plan};
use egeria_stats::rng::Rng;
use egeria_stats::statistics::median;
use serde::Serialize;

/// Windows in which both are asked where programs go.
const WINDOWS: u64 = 500;
/// Rows that people are shown.
const SHOWN: usize = 10;
/// Longer than any budget for moving memory asks of a process, ns.
const LONG_NS: u64 = 1 << 60;

/// A machine's file compared with what was measured.
#[derive(Serialize)]
pub(super) struct Against {
    /// Median distance of all figures, as a share of what the file says.
    median: f64,
    worst: f64,
    /// All figures, the farthest first.
    figures: Vec<Difference>,
    /// Where AsymSched puts programs; none where the file has no links.
    placements: Option<Placements>,
}

/// Decisions on both machines, in the same windows.
#[derive(Serialize)]
struct Placements {
    windows: u64,
    /// In how many both move the same threads to the same nodes.
    same: u64,
    /// Where they do not: the least weighted bandwidth on the machine of the file under what was found, as a share of
    /// that under the file's own decision. 1 where all are the same.
    least_share: f64,
}

impl Against {
    /// `None` when a signal asked to stop.
    pub(super) fn of(declared: &Machine, found: &Machine, stop: &AtomicBool) -> Option<Against> {
        let mut figures = differences(declared, found);
        figures.sort_by(|one, other| other.distance().total_cmp(&one.distance()));
        let distances: Vec<f64> = figures.iter().map(Difference::distance).collect();
        let have_links = [declared, found]
            .iter()
            .all(|machine| matches!(machine.paths(), Ok(Some(_))));
        let placements = if have_links {
            Some(Placements::of(declared, found, stop)?)
        } else {
            None
        };
        Some(Against {
            median: median(&distances).unwrap_or(0.0),
            worst: distances.first().copied().unwrap_or(0.0),
            figures,
            placements,
        })
    }

    /// All figures, the farthest first.
    pub(super) fn figures(&self) -> &[Difference] {
        &self.figures
    }

    pub(super) fn text(&self) -> String {
        let headers = ["the farthest figures", ">file", ">measured", ">distance"];
        let rows = self.figures.iter().take(SHOWN);
        let rows = rows.map(|figure| figure.cells().to_vec()).collect();
        let mut text = format!(
            "{}\n\n{} figures beside the file: median distance {:.1} %, worst {:.1} %",
            output::table(&headers, rows),
            self.figures.len(),
            100.0 * self.median,
            100.0 * self.worst
        );
        if let Some(placements) = &self.placements {
            let Placements {
                windows,
                same,
                least_share,
            } = placements;
            text.push_str(&format!(
                "\nAsymSched decides the same in {same} of {windows} windows of made-up programs"
            ));
            if same < windows {
                let share = 100.0 * least_share;
                text.push_str(&format!(
                    "; in the others programs get at least {share:.1} % of the bandwidth"
                ));
            }
        }
        text
    }
}

impl Placements {
    fn of(declared: &Machine, found: &Machine, stop: &AtomicBool) -> Option<Placements> {
        let settings = Settings::default();
        let mut placements = Placements {
            windows: WINDOWS,
            same: 0,
            least_share: 1.0,
        };
        for number in 0..WINDOWS {
            if stop.load(Ordering::Relaxed) {
                return None;
            }
            let window = window(declared, number);
            let [of_file, of_found] =
                [declared, found].map(|machine| plan(machine, &window, &settings));
            if of_file.moves == of_found.moves {
                placements.same += 1;
                continue;
            }
            let reached = |made: &PlacementPlan| {
                let moved = made.obeyed(declared, &window);
                weighted_bytes_s(&plan(declared, &moved, &settings))
            };
            if let (Some(found), Some(best)) = (reached(&of_found), reached(&of_file)) {
                placements.least_share = placements.least_share.min(found / best);
            }
        }
        Some(placements)
    }
}

/// Some programs, each with threads and memory on some nodes.
fn window(machine: &Machine, number: u64) -> AccessWindow {
    let mut rng = Rng::of(&[number]);
    let nodes = machine.nodes.len();
    let with_cores: Vec<usize> = (0..nodes)
        .filter(|&node| machine.core_count(&machine.nodes[node]) > 0)
        .collect();
    let mut program = |id: u32| {
        let mut left = with_cores.clone();
        let count = 2 + rng.index(3);
        let chosen: Vec<usize> = (0..count.min(left.len()))
            .map(|_| left.swap_remove(rng.index(left.len())))
            .collect();
        let accesses_s = 10_f64.powf(6.0 + 3.0 * rng.unit());
        let mut rates = vec![0.0; nodes];
        chosen.iter().for_each(|&node| rates[node] = accesses_s);
        let on = |&node: &usize| NodeAccesses {
            node: machine.nodes[node].id,
            threads: 1 + rng.index(8) as u32,
            pinned: false,
            accesses_s: rates.clone(),
            resident_bytes: 1 << (20 + rng.index(12)),
        };
        ProcessAccesses {
            process: ProcessKey {
                process_id: id,
                start_ticks: 1,
            },
            nodes: chosen.iter().map(on).collect(),
            running_ns: LONG_NS,
            migrating_ns: 0,
            work_s: None,
            accessors_known: false,
            regions: Vec::new(),
        }
    };
    AccessWindow {
        number,
        end_ns: 1_000_000_000,
        processes: (1..=1 + (number % 4) as u32).map(&mut program).collect(),
        migration_cost: None,
        free_bytes: Vec::new(),
        kernel_balances: false,
    }
}

/// `P_wbw` of the placement there is; `None` where no program needs a link.
fn weighted_bytes_s(plan: &PlacementPlan) -> Option<f64> {
    match plan.decision {
        Decision::Stay { now_wbw, .. }
        | Decision::Move { now_wbw, .. }
        | Decision::OverBudget { now_wbw, .. } => Some(now_wbw),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_is_heeded_between_windows() {
        let machine = Machine::profile("bulldozer-8n").unwrap();
        let found = |is_stopped| Placements::of(&machine, &machine, &AtomicBool::new(is_stopped));
        assert!(found(true).is_none());
        assert!(found(false).is_some_and(|placements| placements.same == placements.windows));
    }
}
