//! The page: well-formed, whole, and in need of nothing else.

use egeria_papers::{Extent, Report, page};

fn brief() -> Report {
    egeria_papers::run(Extent::Brief, |_, _, _| ()).unwrap()
}

/// Elements that HTML never closes.
const VOID: [&str; 2] = ["meta", "br"];

/// The open elements at the end, or the first that does not fit.
fn unclosed(page: &str) -> Result<Vec<String>, String> {
    let mut open: Vec<String> = Vec::new();
    for tag in page.split('<').skip(1) {
        let (inside, _) = tag.split_once('>').ok_or("a tag without end")?;
        let name: String = inside
            .trim_start_matches('/')
            .chars()
            .take_while(char::is_ascii_alphanumeric)
            .collect();
        if inside.starts_with('!') || inside.ends_with('/') || VOID.contains(&name.as_str()) {
            continue;
        }
        if inside.starts_with('/') {
            match open.pop() {
                Some(last) if last == name => {}
                last => return Err(format!("</{name}> after {last:?}")),
            }
        } else {
            open.push(name);
        }
    }
    Ok(open)
}

#[test]
fn the_page_is_well_formed_and_needs_nothing_else() {
    let page = page(&brief()).unwrap();
    assert_eq!(unclosed(&page), Ok(Vec::new()));
    for outside in [
        "http:", "https:", "url(", "<script", "<link", "<img", "@import",
    ] {
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(page.contains("Predicted by a model, not measured"));
    assert!(page.contains("prefers-color-scheme: dark") && page.contains("@media print"));
    assert!(!page.contains("NaN") && !page.contains("inf\""));
}

#[test]
fn the_page_has_every_figure_with_the_papers_points_and_every_claim() {
    let report = brief();
    let page = page(&report).unwrap();
    for anchor in page.split("href=\"#").skip(1) {
        let anchor = anchor.split('"').next().unwrap();
        assert!(page.contains(&format!("id=\"{anchor}\"")), "{anchor}");
    }
    for figure in ["2", "4", "5a", "5b", "6a", "6b", "7a", "7b", "7c", "8", "9"] {
        assert!(page.contains(&format!("<h3>Fig. {figure}: ")), "{figure}");
    }
    for name in [
        "Fig. 1",
        "Fig. 10",
        "Fig. 14",
        "Performance",
        "Tables 1 to 3",
        "Table 5",
    ] {
        assert!(page.contains(&format!("<h3>{name}: ")), "{name}");
    }
    assert!(page.matches("class=\"mark\"").count() > 40);
    for claim in egeria_papers::claims().unwrap() {
        assert!(page.contains(&format!(">{}<", claim.id)), "{}", claim.id);
    }
}

#[test]
fn unclosed_and_crossed_elements_are_found() {
    assert_eq!(unclosed("<p><b></b>").unwrap(), ["p"]);
    assert!(unclosed("<p><b></p></b>").is_err());
    assert_eq!(unclosed("<p><line x=\"1\"/><meta a></p>"), Ok(vec![]));
}
