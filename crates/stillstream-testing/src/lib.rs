//! Stillstream: testing.
