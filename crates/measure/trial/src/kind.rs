//! What a metric is.

/// How samples become a value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// It only grows: its growth per second.
    Counter,
    /// It goes up and down: its median.
    Gauge,
}

impl Kind {
    /// Reads `counter` or `gauge`.
    pub fn parse(text: &str) -> Option<Kind> {
        match text {
            "counter" => Some(Kind::Counter),
            "gauge" => Some(Kind::Gauge),
            _ => None,
        }
    }
}
