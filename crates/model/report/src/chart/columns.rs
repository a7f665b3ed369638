//! Columns side by side, in groups, each perhaps with a point to compare it with.

use maud::{Markup, html};

use super::Color;
use super::axis::{Axis, short};
use super::frame::{Frame, LEFT, RIGHT, WIDTH, at, diamond};

/// Columns side by side, in groups.
pub struct Columns {
    /// What the axis is.
    pub unit: String,
    /// From left to right.
    pub groups: Vec<ColumnGroup>,
}

/// Columns that belong together.
pub struct ColumnGroup {
    pub name: String,
    /// From left to right.
    pub columns: Vec<Column>,
}

/// One column, and a point to compare it with.
pub struct Column {
    pub series: usize,
    /// Shown when the pointer is on it.
    pub name: String,
    pub value: f64,
    /// Between what and what it may be.
    pub range: Option<(f64, f64)>,
    /// What a paper prints.
    pub point: Option<f64>,
}

impl Columns {
    /// The picture; `description` is the text for screen readers.
    pub fn draw(&self, description: &str) -> Markup {
        let frame = Frame::usual();
        let columns = self.groups.iter().flat_map(|group| &group.columns);
        let most = columns.map(|column| {
            let range = column.range.map_or(0.0, |(_, high)| high);
            column.value.max(column.point.unwrap_or(0.0)).max(range)
        });
        let axis = Axis::of_values(most.fold(0.0, f64::max));
        let room = (WIDTH - LEFT - RIGHT) / self.groups.len().max(1) as f64;
        let inside = html! {
            (frame.upright_axis(&axis, &self.unit))
            @for (index, group) in self.groups.iter().enumerate() {
                (group.draw(&frame, &axis, (LEFT + index as f64 * room, room)))
            }
        };
        frame.draw(description, &inside)
    }
}

impl ColumnGroup {
    fn draw(&self, frame: &Frame, axis: &Axis, (left, room): (f64, f64)) -> Markup {
        const MAX_WIDTH: f64 = 46.0;
        let count = self.columns.len().max(1) as f64;
        let width = (room * 0.82 / count).min(MAX_WIDTH);
        let start = left + (room - width * count) / 2.0;
        html! {
            @for (index, column) in self.columns.iter().enumerate() {
                (column.draw(frame, axis, (start + index as f64 * width, width)))
            }
            text x=(at(left + room / 2.0)) y=(at(frame.names_y())) text-anchor="middle" { (self.name) }
        }
    }
}

impl Column {
    fn draw(&self, frame: &Frame, axis: &Axis, (x, width): (f64, f64)) -> Markup {
        let (y, floor) = (frame.y(axis, self.value), frame.y(axis, 0.0));
        let fill = format!("fill: {}", Color::Series(self.series));
        html! {
            rect x=(at(x + 1.0)) y=(at(y)) width=(at((width - 2.0).max(1.0))) height=(at((floor - y).max(0.0))) style=(fill) {
                title { (self.name) ": model " (short(self.value)) }
            }
            @if let Some((low, high)) = self.range {
                @let (middle, low_y, high_y) = (x + width / 2.0, frame.y(axis, low), frame.y(axis, high));
                path.range d=(format!("M{} {}V{}", at(middle), at(low_y), at(high_y))) {
                    title { (self.name) ": " (short(low)) " to " (short(high)) }
                }
                path.range d=(format!("M{} {}h8M{} {}h8", at(middle - 4.0), at(low_y), at(middle - 4.0), at(high_y))) {}
            }
            @if let Some(point) = self.point {
                (diamond(
                    (x + width / 2.0, frame.y(axis, point)),
                    None,
                    &format!("{}: paper {}", self.name, short(point)),
                ))
            }
        }
    }
}
