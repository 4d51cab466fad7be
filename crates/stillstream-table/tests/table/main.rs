//! The table as its users see it. Tests in a program of their own would only be linked longer.

mod limits;
mod model;
mod shrink;
