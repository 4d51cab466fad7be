//! Prints the page of all configuration keys; `cargo xtask docs-config` writes it to `docs/configuration.md`.

fn main() {
    print!("{}", stillstream_config::docs::markdown());
}
