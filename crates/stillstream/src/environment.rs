//! [`StreamExecutionEnvironment`]: where a job begins.

use crate::graph::Graph;

/// Where a job begins: makes sources, holds the settings, and runs what was built.
#[derive(Debug, Default)]
pub struct StreamExecutionEnvironment {
    graph: Graph,
}

impl StreamExecutionEnvironment {
    /// An environment with the default settings.
    pub fn new() -> Self {
        Self::default()
    }

    /// The graph under construction.
    pub(crate) fn graph(&self) -> &Graph {
        &self.graph
    }
}
