//! Event time works wherever its strategy stands, on sources that never end.

mod alignment;
#[path = "../flow_plans/endless.rs"]
mod endless;
mod order;
mod placements;
mod program;
mod visible;
