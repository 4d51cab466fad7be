//! `-D key=value` arguments.

use super::Configuration;
use super::error::ConfigErrors;
use super::load::{Read, Setting, Source};
use super::origin::Origin;

impl Configuration {
    /// Takes `-D key=value` and `-Dkey=value` out of the arguments, and returns the arguments that are left.
    /// All after `--` is left alone.
    ///
    /// ```
    /// use stillstream_config::{Configuration, options};
    /// let (config, rest) = Configuration::from_args(["-Dparallelism.default=4", "input.csv"])?;
    /// assert_eq!(config.get(options::PARALLELISM), 4);
    /// assert_eq!(rest, ["input.csv"]);
    /// # Ok::<(), stillstream_config::ConfigErrors>(())
    /// ```
    ///
    /// # Errors
    ///
    /// All that is wrong: a `-D` without `key=value`, an unknown key, a value of the wrong type.
    pub fn from_args<I>(args: I) -> Result<(Self, Vec<String>), ConfigErrors>
    where
        I: IntoIterator,
        I::Item: Into<String>,
    {
        let (mut rest, mut pairs) = (Vec::new(), Vec::new());
        let mut args = args.into_iter().map(Into::into);
        while let Some(arg) = args.next() {
            if arg == "--" {
                rest.push(arg);
                rest.extend(args.by_ref());
                break;
            }
            let pair = match arg.strip_prefix("-D") {
                None => {
                    rest.push(arg);
                    continue;
                }
                Some("") => args.next().unwrap_or_default(),
                Some(pair) => pair.to_string(),
            };
            pairs.push(pair);
        }
        Ok((Self::read(None, pairs)?, rest))
    }
}

/// Reads `key=value` arguments; the number of each stands for its line.
pub(super) fn read(pairs: impl Iterator<Item = String>) -> Source {
    let mut read = Read::default();
    for (line, pair) in pairs.enumerate() {
        match pair.split_once('=') {
            Some((key, value)) if !key.trim().is_empty() => {
                read.settings.push(Setting { key: key.trim().to_owned(), value: value.to_owned(), line });
            }
            _ => read.malformed.push((
                line,
                format!("`key=value` is expected after -D, as in `-D parallelism.default=4`; found `{pair}`"),
            )),
        }
    }
    Source { read, origin: Box::new(|_| Origin::Argument) }
}
