//! The page: well-formed, whole, and in need of nothing else.

use egeria_harness::testing::html::unclosed;
use egeria_papers::{Extent, Report, page};

fn brief() -> Report {
    egeria_papers::run(Extent::Brief, |_, _, _| ()).unwrap()
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
fn the_page_has_every_figure_with_its_points_and_every_claim() {
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
