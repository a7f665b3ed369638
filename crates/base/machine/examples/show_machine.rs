//! Prints a machine as Egeria sees it: `show_machine [PROFILE | FILE | --sysfs-root DIR]`.

#![forbid(unsafe_code)]

use std::path::Path;

use egeria_machine::{Machine, MachineError};

fn main() -> Result<(), MachineError> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let machine = match arguments[..] {
        ["--sysfs-root", root] => Machine::from_sysfs(Path::new(root))?,
        [spec] => Machine::resolve(Some(spec), None)?,
        _ => Machine::detect()?,
    };
    print!("{}", machine.picture());
    for row in machine.table().rows {
        println!("{}", row.join(" | ").replace('\n', ", "));
    }
    for warning in &machine.warnings {
        println!("warning: {warning}");
    }
    Ok(())
}
