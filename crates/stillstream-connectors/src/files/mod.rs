//! Reading files: lines of text and typed CSV rows.
//!
//! | module | what is inside |
//! |---|---|
//! | `paths` | which files a source reads |
//! | `split` | [`FileSplit`]: a file and how far it was read; [`Malformed`] rows |
//! | `input` | opening a file at a position, compressed or not |
//! | `rows` | the reading thread |
//! | `reader` | what takes the rows from it, at the wanted rate |
//! | `text`, `csv_source` | [`TextSource`] and [`CsvSource`] |
//! | `csv_rows` | one CSV file: header, rows, what is wrong with a row |
//! | `row_feed` | its lines on their way to the parser: finds rows that do not end |

mod csv_rows;
mod csv_source;
mod enumerator;
mod input;
mod paths;
mod reader;
mod row_feed;
mod rows;
mod split;
mod text;

pub use csv_source::CsvSource;
pub use paths::IntoPaths;
pub use split::{FileSplit, Malformed, OnMalformed};
pub use text::TextSource;
