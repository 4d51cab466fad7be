//! The plan: what the user wrote, as nodes; and what runs, as tasks joined by edges.
//!
//! Every process builds the same plan from the same program; nothing is shipped.
//!
//! | module | what is inside |
//! |---|---|
//! | `graph` | [`Plan`], [`Node`], [`Exchange`]: what the user wrote |
//! | `compile` | from the one to the other |
//! | `physical` | `PhysicalPlan`, `Task`: what runs |
//! | `states` | which states each operator has, found out without running it |

mod compile;
mod graph;
mod physical;
mod states;

pub use graph::{
    EventTimeRole, Exchange, Node, NodeBody, NodeId, NodeInput, OperatorFactory, Plan, SourceFactory,
    Splitter, SplitterFactory,
};
pub(crate) use physical::{
    ChainedOperator, Delivery, PhysicalPlan, Placement, Sets, Task, TaskInput, TaskOutput,
};
pub(crate) use states::describe;
