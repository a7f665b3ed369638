//! Tables and their cells.

use maud::{Markup, html};

/// How a cell is set.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Number,
    Text,
    Good,
    Bad,
    Heading,
    Picture,
}

pub struct Cell {
    content: Markup,
    kind: Kind,
}

impl Cell {
    fn new(content: impl Into<String>, kind: Kind) -> Cell {
        let content = content.into();
        Cell {
            content: html! { (content) },
            kind,
        }
    }

    fn class(&self) -> Option<&'static str> {
        match self.kind {
            Kind::Number | Kind::Heading => None,
            Kind::Text => Some("text"),
            Kind::Good => Some("text good"),
            Kind::Bad => Some("text bad"),
            Kind::Picture => Some("line"),
        }
    }

    fn draw(&self) -> Markup {
        match self.kind {
            Kind::Heading => html! { th scope="row" { (self.content) } },
            _ => html! { td class=[self.class()] { (self.content) } },
        }
    }
}

pub fn text(text: impl Into<String>) -> Cell {
    Cell::new(text, Kind::Text)
}

pub fn number(text: impl Into<String>) -> Cell {
    Cell::new(text, Kind::Number)
}

/// What the row is about.
pub fn heading(text: impl Into<String>) -> Cell {
    Cell::new(text, Kind::Heading)
}

/// As it should be, or not.
pub fn verdict(is_good: bool, good: &str, bad: &str) -> Cell {
    if is_good {
        Cell::new(good, Kind::Good)
    } else {
        Cell::new(bad, Kind::Bad)
    }
}

/// A small picture.
pub fn picture(picture: Markup) -> Cell {
    Cell {
        content: picture,
        kind: Kind::Picture,
    }
}

/// A table; columns are set as the cells of the first row.
pub fn table<H: AsRef<str>>(headers: &[H], rows: &[Vec<Cell>]) -> Markup {
    let is_text = |column: usize| match rows.first().and_then(|row| row.get(column)) {
        Some(cell) => !matches!(cell.kind, Kind::Number | Kind::Picture),
        None => true,
    };
    html! {
        div.wide { table {
            thead { tr {
                @for (column, header) in headers.iter().enumerate() {
                    th scope="col" class=[is_text(column).then_some("text")] { (header.as_ref()) }
                }
            } }
            tbody {
                @for row in rows { tr { @for cell in row { (cell.draw()) } } "\n" }
            }
        } }
    }
}
