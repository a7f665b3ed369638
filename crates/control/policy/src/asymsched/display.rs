//! Plans in words, as logs and reports have them.

use std::fmt;

use egeria_machine::{format_bandwidth, format_bytes};

use super::cost::MemoryCost;
use super::plan::{Decision, MemoryAction, MemoryStep, NodeMove};

impl fmt::Display for NodeMove {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (process, threads) = (self.process, self.threads);
        let plural = if threads == 1 { "" } else { "s" };
        write!(
            formatter,
            "{threads} thread{plural} of {process} go from node {} to node {}",
            self.from.0, self.to.0
        )?;
        if self.resident_bytes > 0 {
            let bytes = format_bytes(self.resident_bytes);
            write!(formatter, ", {bytes} behind them")?;
        }
        Ok(())
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = |wbw: &f64| format_bandwidth(*wbw);
        match self {
            Decision::Off => formatter.write_str("nothing is placed: the stage clusters is off"),
            Decision::ThreadsOff => formatter.write_str("threads are not placed: threads is off"),
            Decision::OneNode => {
                formatter.write_str("nothing is placed: the machine has one node, and all is local")
            }
            Decision::NoLinks => formatter.write_str(
                "nothing is placed: the machine says nothing of links between its nodes; add \
                 [[links]] to a machine file",
            ),
            Decision::LinksUnusable { problem } => {
                write!(formatter, "nothing is placed: {problem}")
            }
            Decision::NothingSpans => formatter.write_str(
                "nothing is placed: no process shares data over two nodes, so none needs a link",
            ),
            Decision::Stay { now_wbw, best_wbw } => write!(
                formatter,
                "all stay: weighted bandwidth {}, the best placement has {}",
                rate(now_wbw),
                rate(best_wbw)
            ),
            Decision::Move {
                now_wbw,
                chosen_wbw,
                best_wbw,
                bytes,
                cost,
            } => write!(
                formatter,
                "weighted bandwidth rises from {} to {} (best {}); {} of memory follow ({cost})",
                rate(now_wbw),
                rate(chosen_wbw),
                rate(best_wbw),
                format_bytes(*bytes)
            ),
            Decision::Tiers => formatter.write_str(
                "memory goes from tier to tier: the least used away from full nodes, the most used back",
            ),
            Decision::TakenBack => formatter
                .write_str("the last placement is taken back: programs got less done since"),
            Decision::ThreadsBack => {
                formatter.write_str("threads go back to the node where they were placed")
            }
            Decision::Together {
                remote_now,
                remote_then,
                gain,
            } => write!(
                formatter,
                "threads and memory come together: {:.0} % of the accesses cross nodes, {:.0} % will; {:.0} % faster",
                remote_now * 100.0,
                remote_then * 100.0,
                gain * 100.0
            ),
            Decision::OverBudget {
                process,
                spent_ns,
                cost_ns,
                cost,
                allowed_ns,
                now_wbw,
                chosen_wbw,
            } => {
                let gain = format!("{} instead of {}", rate(chosen_wbw), rate(now_wbw));
                let budget = Budget(*spent_ns, (*cost_ns, *cost), *allowed_ns);
                write!(
                    formatter,
                    "all stay: {process} {budget}; weighted bandwidth would be {gain}"
                )
            }
            Decision::StillFollowing { process } => write!(
                formatter,
                "all stay: a better placement moves {process}, whose memory still follows its last move"
            ),
        }
    }
}

/// Spent, needed and allowed, ns, in words.
struct Budget(u64, (u64, MemoryCost), u64);

impl fmt::Display for Budget {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |ns: u64| ns as f64 / 1e9;
        let (needed_ns, cost) = self.1;
        let (spent, needed, allowed) = (seconds(self.0), seconds(needed_ns), seconds(self.2));
        write!(
            formatter,
            "has spent {spent:.2} s on migration, would need {needed:.2} s ({cost}) and may spend {allowed:.2} s in all"
        )
    }
}

impl fmt::Display for MemoryStep {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let process = self.process;
        match &self.action {
            MemoryAction::Dynamic => {
                write!(formatter, "memory of {process} follows as it is accessed")
            }
            MemoryAction::Full {
                old_share,
                copies,
                cost_ns,
                cost,
                ..
            } => {
                let bytes = copies
                    .iter()
                    .fold(0u64, |sum, copy| sum.saturating_add(copy.2));
                write!(
                    formatter,
                    "memory of {process} follows at once: {:.0} % of its accesses go to nodes it \
                     left; {} in {:.2} s ({cost})",
                    old_share * 100.0,
                    format_bytes(bytes),
                    *cost_ns as f64 / 1e9
                )
            }
            MemoryAction::Gather {
                remote_share,
                remote_then,
                tier,
                copies,
                cost_ns,
                cost,
                wait_ns,
                ..
            } => {
                let [percent, then] = [remote_share, remote_then].map(|share| share * 100.0);
                match tier {
                    Some(tier) => write!(formatter, "{tier} of {process}:")?,
                    None => write!(
                        formatter,
                        "memory of {process} goes to the threads that use it: {percent:.0} % of its accesses cross nodes, {then:.0} % will;"
                    )?,
                }
                for (from, to, bytes) in copies {
                    let bytes = format_bytes(*bytes);
                    write!(formatter, " {bytes} from node {} to node {},", from.0, to.0)?;
                }
                let (needed_s, wait_s) = (*cost_ns as f64 / 1e9, *wait_ns as f64 / 1e9);
                write!(formatter, " {needed_s:.2} s in all ({cost})")?;
                if *wait_ns > 0 {
                    write!(formatter, "; the budget allows all of it in {wait_s:.0} s")?;
                }
                Ok(())
            }
            MemoryAction::Short {
                old_share,
                spent_ns,
                cost_ns,
                cost,
                allowed_ns,
            } => write!(
                formatter,
                "memory of {process} stays where it was, though {:.0} % of its accesses go there: it {}",
                old_share * 100.0,
                Budget(*spent_ns, (*cost_ns, *cost), *allowed_ns)
            ),
            MemoryAction::Settled { old_share } => write!(
                formatter,
                "memory of {process} has followed: {:.0} % of its accesses go to nodes it left; what is used \
                 there follows yet",
                old_share * 100.0
            ),
        }
    }
}
