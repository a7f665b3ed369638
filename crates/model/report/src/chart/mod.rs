//! Charts as SVG that stands in a page. Colours are variables of the page's style, so that pictures follow the
//! reader's choice of light or dark; that, and titles of what one points at, plotters cannot do.

mod axis;
mod bands;
mod bars;
mod columns;
mod frame;
mod lines;

use std::fmt;

pub use axis::short;
pub use bands::Bands;
pub use bars::{Bar, BarGroup, Bars};
pub use columns::{Column, ColumnGroup, Columns};
pub use lines::{Line, Lines, sparkline};

/// A colour of the page's style.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Color {
    /// One of a row of colours that differ, by its number.
    Series(usize),
    /// A variable of the page's own style, without its dashes.
    Named(&'static str),
}

/// Colours that differ: `--s0` and on.
const COLORS: usize = 8;

impl fmt::Display for Color {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Color::Series(number) => write!(out, "var(--s{})", number % COLORS),
            Color::Named(name) => write!(out, "var(--{name})"),
        }
    }
}
