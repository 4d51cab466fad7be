//! The suite.
use stillstream::Result;
pub fn run(_: &[String]) -> Result<()> {
    Ok(())
}
