//! The command line itself: help, wrong arguments, completions, manual pages.

use crate::common;

use common::run;
use egeria_harness::testing::usage::{Program, commands_of};

const PROGRAM: Program<'_> = Program {
    name: "egeria-lab",
    run: |arguments| run(arguments),
    groups: &["bench", "completions", "man"],
};

egeria_harness::tests_of_command_line!(PROGRAM);

#[test]
fn every_bench_has_help_with_an_example() {
    let all = run(["bench", "--help"]).ok().stdout;
    for bench in commands_of(&all) {
        let help = run(["bench", bench, "--help"]).ok().stdout;
        assert!(
            help.contains(&format!("\n  egeria-lab bench {bench}\n")) || help.contains("sudo"),
            "{help}"
        );
    }
}

#[test]
fn a_wrong_command_line_is_one_line_and_status_2() {
    run(["bogus"]).refused(2, &["bogus", "egeria-lab --help"]);
    run(["bench", "datapath", "--rounds", "0"]).refused(2, &["--rounds"]);
    run(["bench", "names", "--op", "fly"]).refused(2, &["--op", "open_deep"]);
    run(["bench", "everyday", "--job", "fly"]).refused(2, &["--job", "git-commit"]);
}
