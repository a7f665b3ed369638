//! Who is in each other's way.

/// What is in the way now: how many are at each memory, how long each queue keeps a line waiting.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Crowd {
    pub(crate) accessors: Vec<f64>,
    pub(crate) wait_ns: Vec<f64>,
    /// Of the bytes at each memory, the share that is written.
    pub(crate) written_shares: Vec<f64>,
    /// Memories that threads of several nodes read directly, so that each takes lines from the other.
    pub(crate) shared_reads: Vec<bool>,
}

impl Crowd {
    /// A line stands in all queues of its memory at once, so the longest wait covers the others.
    pub(crate) fn wait_ns(&self, queues: &[usize]) -> f64 {
        let waits = queues.iter().map(|queue| self.wait_ns[*queue]);
        waits.fold(0.0, f64::max)
    }
}
