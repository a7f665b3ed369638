//! The frame around a page's body, and the pieces that pages share.

use maud::{DOCTYPE, Markup, PreEscaped, html};

use crate::chart::Color;

/// Colours and type; follows the reader's choice of light or dark.
const STYLE: &str = include_str!("style.css");

/// A whole page. `style` is added to that of all pages.
pub fn page(title: &str, style: &str, body: &Markup) -> String {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="color-scheme" content="light dark";
                title { (title) }
                style { (PreEscaped(STYLE)) (PreEscaped(style)) }
            }
            body { main { (body) } }
        }
    };
    without_control_characters(&page.into_string()) + "\n"
}

/// What no page may hold, wherever it comes from: programs and files name things.
fn without_control_characters(page: &str) -> String {
    let shown = |letter: char| {
        if letter.is_control() && letter != '\n' {
            '?'
        } else {
            letter
        }
    };
    page.chars().map(shown).collect()
}

/// What a colour stands for.
pub fn key(color: Color, name: &str) -> Markup {
    html! { span { i.key style=(format!("background: {color}")) {} (name) } }
}

/// A figure with its caption, keys and what belongs below.
pub fn figure(
    id: Option<&str>,
    title: &str,
    keys: &Markup,
    picture: &Markup,
    below: &Markup,
) -> Markup {
    html! {
        figure id=[id] {
            figcaption { h3 { (title) } span.keys { (keys) } }
            div.wide { (picture) }
            (below)
        }
    }
}

/// Names and what they are.
pub fn facts(facts: &[(&str, String)]) -> Markup {
    html! {
        dl { @for (name, fact) in facts { dt { (name) } dd { (fact) } } }
    }
}

/// A part that the reader can fold away.
pub fn folded(title: &str, is_open: bool, inside: &Markup) -> Markup {
    html! { details open[is_open] { summary { (title) } (inside) } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_and_control_characters_are_shown() {
        let body = html! { p { ("a <b> & \"c\"\u{1b}[31m\nd") } };
        let page = page("<title>", "", &body);
        assert!(page.contains("a &lt;b&gt; &amp; &quot;c&quot;?[31m\nd"));
        assert!(page.contains("<title>&lt;title&gt;</title>"));
        assert!(!page.contains('\u{1b}'));
    }
}
