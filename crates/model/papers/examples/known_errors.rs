//! What `crates/model/sim/data/errors.toml` must be: `known_errors > crates/model/sim/data/errors.toml`.

use egeria_papers::{Extent, run};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let known = run(Extent::Full, |_, _, _| {})?.known_errors()?;
    println!("# How far the model was from measurements that calibrate nothing. Written by");
    println!(
        "# `cargo run --example known_errors -p egeria-papers`; egeria_sim::uncertainty reads it.\n"
    );
    print!("{}", toml::to_string(&known)?);
    Ok(())
}
