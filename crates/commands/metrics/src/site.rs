//! The page that Prometheus reads.

use prometheus_client::collector::Collector;
use prometheus_client::registry::Registry;

use egeria_http::{Answer, Request, Site};

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Collects whenever it is asked for.
pub struct MetricsSite(Registry);

impl MetricsSite {
    /// Of these metrics.
    pub fn of(metrics: Box<dyn Collector>) -> MetricsSite {
        let mut registry = Registry::with_prefix("egeria");
        registry.register_collector(metrics);
        MetricsSite(registry)
    }
}

impl Site for MetricsSite {
    fn answer(&self, request: &Request<'_>) -> Option<Answer> {
        if request.path != "/metrics" {
            return None;
        }
        let mut text = String::new();
        prometheus_client::encoding::text::encode(&mut text, &self.0).ok()?;
        Some(if request.accept.contains("application/openmetrics-text") {
            Answer {
                kind: OPEN_METRICS,
                body: text.into_bytes(),
            }
        } else {
            Answer {
                kind: PLAIN,
                body: plain(&text).into_bytes(),
            }
        })
    }

    fn hint(&self) -> &'static str {
        "see /metrics"
    }
}

/// The older text format, where a counter's family has the name of its values, and an empty family is no family.
fn plain(open_metrics: &str) -> String {
    let lines = open_metrics.lines();
    let counters: Vec<&str> = lines
        .clone()
        .filter_map(|line| line.strip_prefix("# TYPE ")?.strip_suffix(" counter"))
        .collect();
    let mut text = String::new();
    for line in lines.filter(|line| !line.starts_with("# UNIT ") && *line != "# EOF") {
        let head = ["# HELP ", "# TYPE "]
            .into_iter()
            .find_map(|head| Some((head, line.strip_prefix(head)?)));
        let named = head.and_then(|(head, rest)| Some((head, rest.split_once(' ')?)));
        match named {
            Some((head, (name, rest))) if counters.contains(&name) => {
                text.push_str(&format!("{head}{name}_total {rest}"))
            }
            _ => text.push_str(line),
        }
        text.push('\n');
    }
    text
}
