//! Manual pages that are made from other files: egeria.toml(5), and section 3.

use crate::common;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use common::{Sandbox, run};
use egeria_harness::testing::skip;

fn tree() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..")
}

/// The directory that the pages were written to.
fn pages(sandbox: &Sandbox) -> Option<PathBuf> {
    let out = sandbox.path("man");
    let script = tree().join("scripts/manual-pages");
    let Ok(made) = Command::new(script).arg(&out).output() else {
        skip("there is no python3");
        return None;
    };
    let stderr = String::from_utf8_lossy(&made.stderr).into_owned();
    assert!(made.status.success(), "{stderr}");
    Some(out)
}

#[test]
fn every_function_of_the_c_library_has_a_page() {
    let sandbox = Sandbox::new();
    let Some(out) = pages(&sandbox) else { return };
    let map = fs::read_to_string(tree().join("crates/storage/capi/libegeria.map")).unwrap();
    let words = map.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let exported: Vec<&str> = words.filter(|word| word.starts_with("egeria_")).collect();
    assert!(exported.len() > 20, "{exported:?}");
    let all = fs::read_to_string(out.join("man3/libegeria.3")).unwrap();
    for name in exported {
        let page = fs::read_to_string(out.join(format!("man3/{name}.3"))).unwrap();
        assert!(page.contains(&format!("{name}(")), "{page}");
        assert!(page.contains("#include <egeria.h>"), "{page}");
        assert!(all.contains(&format!("{name}(3)")), "{name}");
    }
}

#[test]
fn every_key_of_the_settings_is_on_their_page() {
    let sandbox = Sandbox::new();
    let Some(out) = pages(&sandbox) else { return };
    let page = fs::read_to_string(out.join("man5/egeria.toml.5")).unwrap();
    // The error for an unknown key names the known ones.
    for section in ["volumes.data", "steward"] {
        let text = format!("[{section}]\nno_such_key = 1\n");
        let settings = sandbox.file("egeria.toml", &text);
        let refused = run(["units", "--settings", settings.to_str().unwrap()]);
        let known = refused.stderr.split("expected one of ").nth(1);
        let known = known.unwrap_or_else(|| panic!("{}", refused.stderr));
        let keys: Vec<&str> = known.split('`').skip(1).step_by(2).collect();
        let keys = keys.iter().take_while(|key| !key.contains(' '));
        for key in keys {
            // Of the steward, `all` is named with `cgroup`.
            let is_named =
                page.contains(&format!("\\fB{key} = ")) || page.contains(&format!("{key} = true"));
            assert!(is_named, "{key} of [{section}] is not on the page");
        }
    }
}
