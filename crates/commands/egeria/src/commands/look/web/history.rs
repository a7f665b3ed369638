//! The last hour, a point per second at most.

use std::collections::VecDeque;

use egeria_steward::WindowRecord;
use serde::Serialize;

const MAX_POINTS: usize = 3600;
const SECOND_NS: u64 = 1_000_000_000;

/// What went on in a second or a window, whichever is longer.
#[derive(Clone, Serialize, Debug, PartialEq)]
pub(super) struct Point {
    /// When it ended, ns since the epoch.
    time_unix_ns: u64,
    read_bytes_s: f64,
    written_bytes_s: f64,
    local_share: Option<f64>,
    /// Share of all nodes' CPUs in use, in the mean.
    cpu_share: f64,
    /// Actions that were done.
    actions: u64,
    #[serde(skip)]
    windows: u32,
}

/// Points, oldest first.
#[derive(Default)]
pub(super) struct History {
    points: VecDeque<Point>,
}

impl History {
    /// Takes a window in.
    pub(super) fn add(&mut self, window: &WindowRecord) {
        self.push(Point::of(window));
    }

    /// Takes in what came later.
    pub(super) fn append(&mut self, later: History) {
        later.points.into_iter().for_each(|point| self.push(point));
    }

    fn push(&mut self, point: Point) {
        match self.points.back_mut() {
            Some(last) if last.time_unix_ns / SECOND_NS == point.time_unix_ns / SECOND_NS => {
                last.merge(&point);
            }
            _ => self.points.push_back(point),
        }
        while self.points.len() > MAX_POINTS {
            self.points.pop_front();
        }
    }

    pub(super) fn points(&self) -> &VecDeque<Point> {
        &self.points
    }
}

impl Point {
    fn of(window: &WindowRecord) -> Point {
        let sum = |of: fn(&egeria_steward::NodeRecord) -> f64| -> f64 {
            window
                .nodes
                .iter()
                .map(of)
                .filter(|value| value.is_finite())
                .sum()
        };
        Point {
            time_unix_ns: window.time_unix_ns,
            read_bytes_s: sum(|node| node.read_bytes_s),
            written_bytes_s: sum(|node| node.written_bytes_s),
            local_share: window.local_share,
            cpu_share: sum(|node| node.cpu_share) / window.nodes.len().max(1) as f64,
            actions: window.actions.len() as u64,
            windows: 1,
        }
    }

    /// The mean of both, each for its windows.
    fn merge(&mut self, other: &Point) {
        let (before, more) = (f64::from(self.windows), f64::from(other.windows));
        let mean = |one: f64, other: f64| (one * before + other * more) / (before + more);
        self.read_bytes_s = mean(self.read_bytes_s, other.read_bytes_s);
        self.written_bytes_s = mean(self.written_bytes_s, other.written_bytes_s);
        self.cpu_share = mean(self.cpu_share, other.cpu_share);
        self.local_share = match (self.local_share, other.local_share) {
            (Some(one), Some(other)) => Some(mean(one, other)),
            (one, other) => one.or(other),
        };
        self.actions += other.actions;
        self.time_unix_ns = other.time_unix_ns;
        self.windows = self.windows.saturating_add(other.windows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn window(number: u64, time_ms: u64, read_bytes_s: f64) -> WindowRecord {
        let node = egeria_steward::NodeRecord {
            node: egeria_machine::NodeId(0),
            read_bytes_s,
            written_bytes_s: 0.0,
            pm_bytes_s: 0.0,
            pm_maximum_bytes_s: None,
            cpu_share: 0.5,
            threads: 1,
        };
        WindowRecord {
            number,
            duration_ns: 1,
            time_unix_ns: time_ms * 1_000_000,
            local_share: Some(1.0),
            nodes: vec![node],
            ..WindowRecord::default()
        }
    }

    #[test]
    fn windows_of_one_second_are_one_point_and_an_hour_is_kept() {
        let mut history = History::default();
        for number in 0..4 {
            history.add(&window(number, 250 * number, number as f64));
        }
        assert_eq!(history.points().len(), 1);
        assert_eq!(history.points()[0].read_bytes_s, 1.5);
        for number in 4..10_000 {
            let mut later = History::default();
            later.add(&window(number, 1000 * number, 1.0));
            history.append(later);
        }
        assert_eq!(history.points().len(), MAX_POINTS);
        assert_eq!(
            history.points()[MAX_POINTS - 1].time_unix_ns,
            9999 * SECOND_NS
        );
    }
}
