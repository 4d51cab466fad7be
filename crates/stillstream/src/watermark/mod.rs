//! Event time: how records get their times, and how a stream knows how far it is.

mod generator;
mod strategy;

pub(crate) use generator::WatermarkGenerator;
pub use strategy::{NoTimes, WatermarkStrategy};
