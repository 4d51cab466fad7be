//! Stillstream: connectors.
