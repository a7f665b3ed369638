//! Bands on top of each other over time: how something is divided, and when that changes.

use std::fmt::Write;

use super::html::escape;
use super::svg::{Axis, COLORS, Frame, upright};

/// How a whole is divided, moment by moment.
pub(crate) struct Bands {
    pub(crate) x_unit: String,
    pub(crate) y_unit: String,
    /// What each band is, from below.
    pub(crate) names: Vec<String>,
    /// The end of each stretch of time, ascending, and the parts in it.
    pub(crate) stretches: Vec<(f64, Vec<f64>)>,
}

impl Bands {
    /// The picture; `description` is for those who cannot see it.
    pub(crate) fn draw(&self, description: &str) -> String {
        let frame = Frame::low();
        let sums = self
            .stretches
            .iter()
            .map(|(_, parts)| parts.iter().sum::<f64>());
        let up = Axis::of_counts(sums.fold(0.0, f64::max));
        let across = Axis::of_counts(self.stretches.last().map_or(1.0, |(end, _)| *end));
        let mut svg = frame.open(description);
        upright(&mut svg, &frame, &up, &self.y_unit);
        frame.level(&mut svg, &across, &self.x_unit);
        let mut floors = vec![0.0; self.stretches.len()];
        for (band, name) in self.names.iter().enumerate() {
            self.band(&mut svg, &frame, (&across, &up), (band, name), &mut floors);
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// One band on what is below it.
    fn band(
        &self,
        svg: &mut String,
        frame: &Frame,
        (across, up): (&Axis, &Axis),
        (band, name): (usize, &str),
        floors: &mut [f64],
    ) {
        let mut begin = 0.0;
        let (mut top, mut bottom) = (String::new(), Vec::new());
        for ((end, parts), floor) in self.stretches.iter().zip(floors) {
            let ceiling = *floor + parts.get(band).copied().unwrap_or(0.0);
            let (from, to) = (frame.x(across, begin), frame.x(across, *end));
            let y = frame.y(up, ceiling);
            let _ = write!(top, "{from:.1},{y:.1} {to:.1},{y:.1} ");
            let y = frame.y(up, *floor);
            bottom.push(format!("{to:.1},{y:.1} {from:.1},{y:.1} "));
            (*floor, begin) = (ceiling, *end);
        }
        let bottom: String = bottom.into_iter().rev().collect();
        let _ = writeln!(
            svg,
            "<polygon style=\"fill: var(--s{})\" points=\"{top}{}\"><title>{}</title></polygon>",
            band % COLORS,
            bottom.trim_end(),
            escape(name)
        );
    }
}
