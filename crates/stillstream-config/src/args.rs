//! `-D key=value` arguments.

use super::Configuration;
use super::error::{ConfigError, ConfigErrors};
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
        let mut config = Self::new();
        let (mut rest, mut errors) = (Vec::new(), Vec::new());
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
            match pair.split_once('=') {
                Some((key, value)) if !key.trim().is_empty() => {
                    config.insert(key.trim(), value, Origin::Argument, &mut errors);
                }
                _ => errors.push(ConfigError::Malformed {
                    origin: Origin::Argument,
                    reason: format!(
                        "`key=value` is expected after -D, as in `-D parallelism.default=4`; found `{pair}`"
                    ),
                }),
            }
        }
        ConfigErrors::unless_empty(errors)?;
        Ok((config, rest))
    }
}
