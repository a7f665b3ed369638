//! Pieces of a page: one file that needs nothing but itself.

/// Colours and type; follows the reader's choice of light or dark.
const STYLE: &str = include_str!("style.css");

/// Text as HTML.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // What no page may hold.
            control if control.is_control() && control != '\n' => escaped.push('?'),
            other => escaped.push(other),
        }
    }
    escaped
}

/// A whole page around its body.
pub(crate) fn page(title: &str, body: &str) -> String {
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n\
         <body>\n<main>\n{body}</main>\n</body>\n</html>\n",
        title = escape(title),
    )
}

/// How a cell is set.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Set {
    /// A number.
    Number,
    /// Words.
    Text,
    /// As it should be.
    Good,
    /// As it should not be.
    Bad,
}

/// One cell.
pub(crate) struct Cell {
    text: String,
    set: Set,
}

pub(crate) fn text(text: impl Into<String>) -> Cell {
    Cell {
        text: text.into(),
        set: Set::Text,
    }
}

pub(crate) fn number(text: impl Into<String>) -> Cell {
    Cell {
        text: text.into(),
        set: Set::Number,
    }
}

pub(crate) fn verdict(is_good: bool, good: &str, bad: &str) -> Cell {
    let (text, set) = if is_good {
        (good, Set::Good)
    } else {
        (bad, Set::Bad)
    };
    Cell {
        text: text.to_owned(),
        set,
    }
}

/// A table; columns are set as the cells of the first row.
pub(crate) fn table(headers: &[&str], rows: &[Vec<Cell>]) -> String {
    let class = |column: usize| match rows.first().and_then(|row| row.get(column)) {
        Some(cell) if cell.set == Set::Number => "",
        _ => " class=\"text\"",
    };
    let header = |(column, header): (usize, &&str)| {
        format!("<th scope=\"col\"{}>{}</th>", class(column), escape(header))
    };
    let head: String = headers.iter().enumerate().map(header).collect();
    let body: String = rows.iter().map(|row| line(row)).collect();
    format!(
        "<div class=\"wide\"><table>\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}</tbody>\n</table></div>\n"
    )
}

fn line(row: &[Cell]) -> String {
    let cell = |cell: &Cell| {
        let class = match cell.set {
            Set::Number => "",
            Set::Text => " class=\"text\"",
            Set::Good => " class=\"text good\"",
            Set::Bad => " class=\"text bad\"",
        };
        format!("<td{class}>{}</td>", escape(&cell.text))
    };
    let cells: String = row.iter().map(cell).collect();
    format!("<tr>{cells}</tr>\n")
}

/// A key of a colour.
pub(crate) fn key(series: usize, name: &str) -> String {
    let color = series % super::svg::COLORS;
    format!(
        "<span><i class=\"key\" style=\"background: var(--s{color})\"></i>{}</span>",
        escape(name)
    )
}

/// A figure with its caption, keys and what belongs below.
pub(crate) fn figure(id: &str, title: &str, keys: &str, svg: &str, below: &str) -> String {
    format!(
        "<figure id=\"{}\">\n<figcaption><h3>{}</h3><span class=\"keys\">{keys}</span></figcaption>\n{svg}{below}</figure>\n",
        escape(id),
        escape(title)
    )
}
