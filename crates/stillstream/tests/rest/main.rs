//! A person, or a program, asks a running job by REST.
//!
//! All jobs here have the one server of this process, as they would in any program of several jobs.

mod access;
mod client;
mod job;
mod operations;
mod paths;
