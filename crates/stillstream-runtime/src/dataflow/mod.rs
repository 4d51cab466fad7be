//! The dataflow of one worker: Timely operators that run chains of operators, and the channels between them.
//!
//! | module | what is inside |
//! |---|---|
//! | `worker` | one worker thread during one attempt, and how an attempt ends |
//! | `attempt` | what the tasks of one worker share during one attempt |
//! | `mailbox` | how control messages get to the tasks |
//! | `open` | the settings of workers, and opening the operators of a task |
//! | `build` | the Timely operator of a task |
//! | `subtask` | what every subtask has, and the protocol of its life and of a checkpoint |
//! | `source_task`, `task` | the two kinds: a source's, and one with inputs |
//! | `inputs`, `outputs` | what has arrived, and what waits to be sent |
//! | `time_reports` | what the JobManager is told of event time |
//! | `chain` | operators that pass batches on to one another |
//! | `turn` | how much a task does before it lets others run |
//! | [`exchange`] | how records get from task to task |

pub(crate) mod attempt;
mod build;
pub(crate) mod chain;
pub mod exchange;
mod inputs;
pub(crate) mod mailbox;
pub(crate) mod open;
mod outputs;
mod source_task;
mod subtask;
mod task;
mod time_reports;
pub(crate) mod turn;
pub(crate) mod worker;
