//! `egeria quota`: as the page says it, and with input that is refused.

use crate::common;

use std::fs;
use std::path::Path;

use common::{Sandbox, can_mount, commands_of, finish, run, shell, text};

const PAGE: &str = include_str!("../../../../docs/how-to/limit-directories.md");

#[test]
fn the_page_on_limits_works_as_it_stands() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (pool, data) = (sandbox.volume("v", "64M"), sandbox.directory("data"));
    run(["mount", text(&pool), text(&data)]).ok();
    let commands = commands_of(PAGE);
    assert!(commands.len() >= 8, "{commands:?}");
    for line in commands {
        let here = line.replace("/srv/data", text(&data));
        let ended = finish(shell(&here));
        assert_eq!(ended.status, 0, "{line}: {ended:?}");
    }
    let shown = run(["quota", "show", text(&data), "--json"]).ok().json();
    assert_eq!(shown["trees"].as_array().unwrap().len(), 1);
    let tree = &shown["trees"][0];
    assert_eq!(tree["directory"], "/home/alice");
    assert_eq!(tree["limit_bytes"], 20u64 << 30);
    assert!(tree["limit_inodes"].is_null(), "{tree}");
    run(["umount", text(&data)]).ok();
    run(["check", text(&pool)]).ok();
}

#[test]
fn limits_hold_over_mounts_and_are_shown() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (pool, data) = (sandbox.volume("v", "64M"), sandbox.directory("data"));
    run(["mount", text(&pool), text(&data)]).ok();
    let none = run(["quota", "show", text(&pool)]).ok().stdout;
    assert!(none.contains("no directory has limits"), "{none}");
    let top = data.join("top");
    fs::create_dir(&top).unwrap();
    fs::write(top.join("old"), [1; 10_000]).unwrap();
    let set = run([
        "quota",
        "set",
        text(&top),
        "--bytes",
        "40KiB",
        "--inodes",
        "3",
    ])
    .ok();
    assert!(
        set.stdout
            .contains("12.0 KiB of 40.0 KiB, 2 of 3 inodes used"),
        "{set:?}"
    );
    for _ in 0..2 {
        let full = fs::write(top.join("new"), [2; 40_000]).unwrap_err();
        assert_eq!(full.raw_os_error(), Some(libc::EDQUOT));
        let shown = run(["quota", "show", text(&pool), "--json"]).ok().json();
        let tree = &shown["trees"][0];
        assert_eq!(
            (&tree["used_bytes"], &tree["used_inodes"]),
            (&40_960.into(), &3.into())
        );
        run(["umount", text(&data)]).ok();
        run(["mount", text(&pool), text(&data)]).ok();
    }
    let removed = run(["quota", "remove", text(&top)]).ok().stdout;
    assert!(removed.contains("no limits any more"), "{removed}");
    fs::write(top.join("new"), [2; 80_000]).unwrap();
    run(["umount", text(&data)]).ok();
}

#[test]
fn bad_limits_are_one_line_and_change_nothing() {
    if !can_mount() {
        return;
    }
    let sandbox = Sandbox::new();
    let (pool, data) = (sandbox.volume("v", "64M"), sandbox.directory("data"));
    let top = data.join("top");
    let set =
        |directory: &Path, bytes: &str| run(["quota", "set", text(directory), "--bytes", bytes]);
    set(&data, "1MiB").refused(1, &["is not on a mount of Egeria"]);
    run(["mount", text(&pool), text(&data)]).ok();
    set(&top, "1MiB").refused(1, &["top"]);
    fs::create_dir_all(top.join("inner")).unwrap();
    run(["quota", "set", text(&top)]).refused(2, &["--bytes"]);
    set(&top, "1000").refused(1, &["4096"]);
    set(&top, "many").refused(2, &["many"]);
    run(["quota", "set", text(&top), "--inodes", "0"]).refused(2, &["0"]);
    let file = top.join("inner/file");
    fs::write(&file, b"1").unwrap();
    set(&file, "1MiB").refused(1, &["is no directory"]);
    fs::hard_link(&file, data.join("twin")).unwrap();
    set(&top, "1MiB").refused(1, &["has names in /top and outside"]);
    fs::remove_file(data.join("twin")).unwrap();
    set(&top.join("inner"), "1MiB").ok();
    set(&top, "1MiB").refused(1, &["/top/inner in it has limits"]);
    run(["quota", "remove", text(&top)]).refused(1, &["it has no limits"]);
    let shown = run(["quota", "show", text(&data), "--json"]).ok().json();
    assert_eq!(shown["trees"].as_array().unwrap().len(), 1);
    run(["umount", text(&data)]).ok();
}
