//! Reports show everything, escape what programs say, and need nothing but themselves.

use std::path::PathBuf;

use egeria_bench::datapath::{DatapathReport, Row};
use egeria_bench::demo::{DemoReport, DemoRow, Family, MachineSummary, Throughput, page};
use egeria_bench::everyday::EverydayRow;
use egeria_bench::names::NamesRow;

fn throughput(bytes_s: f64) -> Option<Throughput> {
    Some(Throughput {
        bytes_s,
        ops_s: Some(bytes_s / 4096.0),
    })
}

fn row(family: Family, program: &str, workload: &str, scale: f64) -> DemoRow {
    DemoRow {
        family,
        program: program.to_owned(),
        workload: workload.to_owned(),
        egeria_emulated: throughput(2.1e9 * scale).filter(|_| family != Family::Everyday),
        egeria: throughput(3.3e9 * scale),
        tmpfs: throughput(1.7e9 * scale),
        local_bytes: (812e6 * scale) as u64,
        remote_bytes: (234e6 * scale) as u64,
        direct_calls: (260_000.0 * scale) as u64,
        passed_calls: 7,
        mount_requests: 90,
        verified: true,
        verification: "checksums <all> the same".to_owned(),
        failure: None,
    }
}

fn report() -> DemoReport {
    let mut rows = vec![
        row(Family::Fio, "fio", "random read, 1 job", 0.4),
        row(Family::Fio, "fio", "random read, 8 threads", 1.5),
        row(Family::Rocksdb, "db_bench", "fillseq, 4 KB values", 0.1),
        row(Family::Everyday, "cp", "-a of a tree", 0.05),
        row(Family::Everyday, "git", "clone", 0.02),
    ];
    rows[4].verified = false;
    rows[4].egeria = None;
    rows[4].failure = Some("git: fatal & <b>bad</b>".to_owned());
    DemoReport {
        machine: MachineSummary {
            name: "optane-2s".to_owned(),
            emulated: true,
            dilation: Some(16.0),
            nodes: 2,
            node: "4 cores, 6.8 GB/s read, 1.85 GB/s write, 305 and 81 ns".to_owned(),
        },
        host: "a processor, 2 CPUs, Linux 6.1".to_owned(),
        versions: vec!["fio-3.33".to_owned()],
        rows,
        names: vec![NamesRow {
            op: "open_deep".to_owned(),
            threads: 1,
            directory: "own".to_owned(),
            entries: 10,
            tmpfs_ns: 2_000.0,
            run_ns: 900.0,
            mount_ns: 240_000.0,
            loopback_ns: 40_000.0,
            spread: Some(0.12),
        }],
        jobs: vec![EverydayRow {
            job: "tar x".to_owned(),
            tmpfs_s: Some(0.2),
            run_s: Some(0.25),
            mount_s: None,
            loopback_s: Some(0.9),
            spread: None,
            verified: true,
        }],
        pats: None,
        odin: None,
        relocation: None,
        seconds: 123.4,
        html: PathBuf::from("out/report.html").into(),
        json: PathBuf::from("out/report.json").into(),
    }
}

#[test]
fn the_page_shows_every_row_and_is_self_contained() {
    let report = report();
    let page = page(&report);
    for row in &report.rows {
        assert!(
            page.contains(&format!("<th scope=\"row\">{}</th>", row.name())),
            "{}",
            row.name()
        );
    }
    for outside in [
        "http:", "https:", "src=", "href=", "url(", "@import", "<script", "<link",
    ] {
        assert!(
            !page.contains(outside),
            "the page refers to something outside: {outside}"
        );
    }
    // Three families, the emulated machine, placement, names, and programs on many files.
    assert_eq!(page.matches("<svg ").count(), 7);
    assert_eq!(
        page.matches("role=\"img\" aria-label=\"Bar chart.").count(),
        7
    );
}

#[test]
fn emulated_figures_are_labelled_with_the_profile() {
    let report = report();
    let page = page(&report);
    assert!(page.contains("Egeria (optane-2s, emulated)"));
    assert!(page.contains("Throughput on optane-2s, emulated, in that machine's time"));
    assert!(report.table().contains("Egeria (optane-2s, emulated)"));
    assert!(report.table().contains("16 s here"));

    let mut real = report;
    real.rows
        .iter_mut()
        .for_each(|row| row.egeria_emulated = None);
    assert!(!real.table().contains("emulated"));
}

#[test]
fn what_programs_say_is_escaped() {
    let page = page(&report());
    assert!(page.contains("git: fatal &amp; &lt;b&gt;bad&lt;/b&gt;"));
    assert!(page.contains("checksums &lt;all&gt; the same"));
    assert!(!page.contains("<b>bad</b>"));
}

#[test]
fn failures_are_counted_named_and_keep_the_figures_of_the_rest() {
    let report = report();
    assert!(!report.all_verified());
    assert_eq!(report.failures().count(), 1);
    let table = report.table();
    assert!(table.contains("1 of 6 runs failed"), "{table}");
    assert!(table.contains("git clone: git: fatal"), "{table}");
    assert!(table.contains("out/report.html") && table.contains("out/report.json"));
    let page = page(&report);
    assert!(page.contains("<td class=\"text bad\">NO</td>"));

    let mut good = report;
    good.rows.truncate(4);
    assert!(good.all_verified());
    assert!(good.verdict().contains("All 5 runs verified"));
    good.rows.clear();
    assert!(!good.all_verified(), "nothing run is nothing verified");
}

#[test]
fn the_pictures_have_no_colour_the_page_does_not_set() {
    let page = page(&report());
    let variables = page.split("var(--").skip(1);
    for name in variables.filter_map(|rest| rest.split(')').next()) {
        let is_set = page.matches(&format!("--{name}:")).count();
        assert!(is_set >= 2, "--{name} is not set for light and dark");
    }
    let body = &page[page.find("<body>").unwrap()..];
    assert!(!body.contains("#"), "a colour of its own");
}

#[test]
fn the_json_holds_raw_figures_under_stable_names() {
    let value = serde_json::to_value(report()).unwrap();
    let first = &value["rows"][0];
    assert_eq!(first["family"], "fio");
    assert_eq!(first["local_bytes"], (812e6 * 0.4) as u64);
    assert_eq!(first["egeria"]["bytes_s"], 3.3e9 * 0.4);
    assert_eq!(value["machine"]["name"], "optane-2s");
    assert_eq!(value["rows"][3]["egeria_emulated"], serde_json::Value::Null);
}

#[test]
fn datapath_json_is_one_array_of_rows_with_the_agreed_names() {
    let row = Row {
        op: "random_pread".to_owned(),
        block_bytes: 4096,
        threads: 1,
        egeria_ops_s: 4_100_000.0,
        tmpfs_ops_s: 2_500_000.0,
        memcpy_ops_s: 4_700_000.0,
        of_memcpy: 0.8723,
        of_tmpfs: 1.64,
        local_ops_s: None,
        of_local: None,
    };
    let report = DatapathReport {
        rows: vec![row],
        rounds: 5,
        file_bytes: 512 << 20,
    };
    let text = serde_json::to_string(&report).unwrap();
    assert!(text.starts_with("[{") && text.ends_with("}]"));
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let mut names: Vec<&String> = value[0].as_object().unwrap().keys().collect();
    names.sort();
    let mut agreed = [
        "op",
        "block_bytes",
        "threads",
        "egeria_ops_s",
        "tmpfs_ops_s",
        "memcpy_ops_s",
        "of_memcpy",
        "of_tmpfs",
    ];
    agreed.sort_unstable();
    assert_eq!(names, agreed);
    let table = report.table();
    assert!(
        table.contains("4,100,000") && table.contains("0.87") && table.contains("5 rounds"),
        "{table}"
    );
}

/// Written where a person can look at it when `EGERIA_REPORT_SAMPLE` names a file.
#[test]
fn the_page_is_well_formed_enough_to_nest() {
    let page = page(&report());
    if let Some(path) = std::env::var_os("EGERIA_REPORT_SAMPLE") {
        std::fs::write(path, &page).unwrap();
    }
    for tag in [
        "html", "head", "body", "main", "header", "figure", "svg", "table", "tbody", "section",
        "ul", "footer",
    ] {
        let opened =
            page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
        assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
    }
}
