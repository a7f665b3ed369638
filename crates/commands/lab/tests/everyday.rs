//! `egeria-lab bench everyday` finds what programs do wrong.

mod common;

use std::fs;
use std::os::unix::fs::PermissionsExt;

use common::{finish, lab};
use egeria_harness::testing::{built, memory, preload_library, turn};

/// Copies as it should, then changes a byte where the directory it copies to is on this place.
const DAMAGING: &str = r#"#!/bin/sh
/bin/cp -a "$2." "$3" || exit 1
case "$3" in
*/PLACE/*) printf X | dd of="$3/sparse" bs=1 seek=7 conv=notrunc status=none
    touch -d @1600000000 "$3/sparse" ;;
esac
"#;

#[test]
fn a_damaged_copy_is_not_verified() {
    let Some(_turn) = turn() else { return };
    let library = preload_library();
    built("egeria-bench", "egeria-names-worker");
    let (memory, tools) = (memory(), tempfile::tempdir().unwrap());
    let run = |place: &str| {
        let tool = tools.path().join("rsync");
        fs::write(&tool, DAMAGING.replace("PLACE", place)).unwrap();
        fs::set_permissions(&tool, fs::Permissions::from_mode(0o755)).unwrap();
        let mut command = lab(["bench", "everyday", "--quick", "--rounds", "1", "--json"]);
        command
            .args(["--job", "rsync", "--job", "rm", "--memory"])
            .arg(memory.path());
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("EGERIA_PRELOAD_LIB", &library);
        command.env("PATH", format!("{}:{path}", tools.path().display()));
        finish(command)
    };
    run("nowhere").ok();
    for place in ["run", "mount"] {
        let ended = run(place);
        assert_eq!(ended.status, 1, "{ended:?}");
        let rows = ended.json();
        assert_eq!(rows[0]["job"], "rsync -a");
        assert_eq!(rows[0]["verified"], false, "{ended:?}");
        assert_eq!(rows[1]["verified"], true, "{ended:?}");
        assert!(
            ended.stderr.contains(&format!("wrong on {place}")),
            "{ended:?}"
        );
        assert!(ended.stderr.contains("sparse"), "{ended:?}");
    }
}
