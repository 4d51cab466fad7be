//! Runs one of the examples: `cargo run -p cookbook -- word_count`.

use stillstream::prelude::*;

#[stillstream::main]
fn main() -> Result<()> {
    let env = StreamExecutionEnvironment::from_args()?;
    let wanted = env.arguments().first().map(String::as_str);
    match cookbook::ALL.iter().find(|(name, _)| Some(*name) == wanted) {
        Some((_, example)) => example(),
        None => {
            let names: Vec<&str> = cookbook::ALL.iter().map(|(name, _)| *name).collect();
            println!("usage: cargo run -p cookbook -- NAME [--help]\n\n{}", names.join("\n"));
            Ok(())
        }
    }
}
