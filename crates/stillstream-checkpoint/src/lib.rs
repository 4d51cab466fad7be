//! Stillstream: checkpoint.
