//! Bands on top of each other over time: how something is divided, and when that changes.

use std::fmt::Write;

use maud::{Markup, html};

use super::Color;
use super::axis::Axis;
use super::frame::Frame;

/// How a whole is divided, moment by moment.
pub struct Bands {
    /// What the level axis is.
    pub x_unit: String,
    /// What the upright axis is.
    pub y_unit: String,
    /// What each band is, from below.
    pub names: Vec<String>,
    /// The end of each stretch of time, ascending, and the parts in it.
    pub stretches: Vec<(f64, Vec<f64>)>,
}

impl Bands {
    /// The picture; `description` is the text for screen readers.
    pub fn draw(&self, description: &str) -> Markup {
        let frame = Frame::low();
        let sums = self
            .stretches
            .iter()
            .map(|(_, parts)| parts.iter().sum::<f64>());
        let up = Axis::of_counts(sums.fold(0.0, f64::max));
        let across = Axis::of_counts(self.stretches.last().map_or(1.0, |(end, _)| *end));
        let mut floors = vec![0.0; self.stretches.len()];
        let inside = html! {
            (frame.upright_axis(&up, &self.y_unit))
            (frame.level_axis(&across, &self.x_unit))
            @for (band, name) in self.names.iter().enumerate() {
                (self.band(&frame, (&across, &up), (band, name), &mut floors))
            }
        };
        frame.draw(description, &inside)
    }

    /// One band on what is below it.
    fn band(
        &self,
        frame: &Frame,
        (across, up): (&Axis, &Axis),
        (band, name): (usize, &str),
        floors: &mut [f64],
    ) -> Markup {
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
        let fill = format!("fill: {}", Color::Series(band));
        html! {
            polygon style=(fill) points=(format!("{top}{}", bottom.trim_end())) { title { (name) } }
        }
    }
}
