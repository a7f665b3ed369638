//! How fast copies may go at the same time: all together take no more than a share of a memory or lane.

use super::speeds::Speeds;

/// If a copy would be slower than this part of its rate alone, it waits for the copies under way.
const MIN_PART: f64 = 0.1;

/// Bandwidth taken by copies under way, bytes/s.
pub(super) struct Rates<'a> {
    speeds: &'a Speeds<'a>,
    share: f64,
    read: Vec<f64>,
    written: Vec<f64>,
    lanes: Vec<f64>,
}

impl<'a> Rates<'a> {
    /// Rates without any copy under way.
    pub(super) fn new(speeds: &'a Speeds<'a>, share: f64) -> Rates<'a> {
        Rates {
            speeds,
            share,
            read: vec![0.0; speeds.nodes],
            written: vec![0.0; speeds.nodes],
            lanes: vec![0.0; speeds.lane_bytes_s.len()],
        }
    }

    /// Adds a copy under way.
    pub(super) fn take(&mut self, from: usize, to: usize, bytes_s: f64) {
        self.read[from] += bytes_s;
        self.written[to] += bytes_s;
        for lane in self.speeds.way(from, to) {
            self.lanes[*lane] += bytes_s;
        }
    }

    /// The rate of another copy, bytes/s; `None` when it should wait, or when memories are not known.
    pub(super) fn offer(&self, from: usize, to: usize) -> Option<f64> {
        let source = self.speeds.media[from].as_ref()?.read;
        let target = self.speeds.media[to].as_ref()?.write;
        let lanes = self.speeds.paths.into_iter().flat_map(|paths| {
            let way = paths.way(from, to).iter();
            way.map(|lane| (paths.lanes[*lane].bytes_s, self.lanes[*lane]))
        });
        let memories = [
            (source.bytes_s, self.read[from]),
            (target.bytes_s, self.written[to]),
        ];
        let (mut alone, mut beside) = (
            source.stream_bytes_s.min(target.stream_bytes_s),
            f64::INFINITY,
        );
        for (all, used) in memories.into_iter().chain(lanes) {
            alone = alone.min(all * self.share);
            beside = beside.min(all * self.share - used);
        }
        let offer = beside.min(alone);
        (offer >= MIN_PART * alone && offer > 0.0).then_some(offer)
    }
}
