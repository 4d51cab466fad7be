//! Stillstream: storage.
