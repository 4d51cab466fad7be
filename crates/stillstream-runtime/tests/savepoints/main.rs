//! Savepoints as directories: golden files of each form, damage at every place, and operator state through
//! changes of the parallelism.

mod damage;
mod golden;
mod operator_state;
mod written;
