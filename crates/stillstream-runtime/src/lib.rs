//! Stillstream: runtime.
