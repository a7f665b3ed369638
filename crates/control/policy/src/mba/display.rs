//! Bounds in words: one line each.

use std::fmt;

use egeria_machine::format_bandwidth;

use super::plan::{BoundBecause, MbaPlan, UnboundBecause};

impl fmt::Display for MbaPlan {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MbaPlan::On {
            processes,
            shares,
            because,
        } = self
        else {
            let MbaPlan::Off { because } = self else {
                return Ok(());
            };
            return write!(formatter, "no program's bandwidth is bounded: {because}");
        };
        let ids: Vec<String> = processes
            .iter()
            .map(|process| process.process_id.to_string())
            .collect();
        let shares: Vec<String> = shares
            .iter()
            .map(|each| format!("{:.0} % on node {}", each.share * 100.0, each.node.0))
            .collect();
        write!(
            formatter,
            "processes {} get {} of their bandwidth: {because}",
            ids.join(", "),
            shares.join(", ")
        )
    }
}

impl fmt::Display for BoundBecause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            formatter,
            "{:.0} threads are at the memory of node {}, which bears {} by its curve and moves {} instead of {}",
            self.threads,
            self.node.0,
            self.bears,
            format_bandwidth(self.traffic_bytes_s),
            format_bandwidth(self.expected_bytes_s)
        )
    }
}

impl fmt::Display for UnboundBecause {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            UnboundBecause::NoCurve => {
                formatter.write_str("no memory is known to give less to many threads than to few")
            }
            UnboundBecause::NotCounted => {
                formatter.write_str("the traffic of memories is not counted here")
            }
            UnboundBecause::Quiet => {
                formatter.write_str("no memory is used by more threads than it bears")
            }
            UnboundBecause::OthersFirst { node } => write!(
                formatter,
                "threads that ask for admission are too many for the memory of node {}, and are bounded first",
                node.0
            ),
            UnboundBecause::NotAllowed { memory } => write!(
                formatter,
                "{memory}; to bound programs that do not ask: --set stages.mba=on"
            ),
            UnboundBecause::NoActuator { memory } => write!(
                formatter,
                "{memory}, but nothing here can bound programs that do not ask (see `egeria doctor`)"
            ),
            UnboundBecause::BroughtTooLittle => formatter.write_str(
                "it brought less than half of what was expected, and is not repeated for a while",
            ),
        }
    }
}
