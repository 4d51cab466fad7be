//! Checkpoint storage: what is written, read, verified and deleted, on disks and in object stores.

mod cleanup;
mod conformance;
mod metadata;
mod register;
mod retained;
mod savepoint;
