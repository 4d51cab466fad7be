//! Sizes in bytes as Flink writes them: `20 kb`, `5mb`, `1g`; units are powers of 1024.

use std::fmt;
use std::str::FromStr;

/// A number of bytes (Flink's `MemorySize`).
///
/// ```
/// use stillstream_config::ByteSize;
/// assert_eq!("20 kb".parse::<ByteSize>().unwrap(), ByteSize::from_bytes(20 * 1024));
/// assert_eq!("5mb".parse::<ByteSize>().unwrap().to_string(), "5 mb");
/// assert_eq!("10485760 b".parse::<ByteSize>().unwrap(), "10m".parse().unwrap());
/// assert!("5 apples".parse::<ByteSize>().is_err());
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ByteSize(u64);

const UNITS: &[(&[&str], u32)] = &[
    (&["", "b", "bytes"], 0),
    (&["k", "kb", "kibibytes"], 10),
    (&["m", "mb", "mebibytes"], 20),
    (&["g", "gb", "gibibytes"], 30),
    (&["t", "tb", "tebibytes"], 40),
];

impl ByteSize {
    /// So many bytes.
    pub const fn from_bytes(bytes: u64) -> Self {
        Self(bytes)
    }

    /// So many KiB (1024 bytes).
    pub const fn from_kib(kib: u64) -> Self {
        Self(kib.saturating_mul(1 << 10))
    }

    /// So many MiB (1024 KiB).
    pub const fn from_mib(mib: u64) -> Self {
        Self(mib.saturating_mul(1 << 20))
    }

    /// The number of bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for ByteSize {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected =
            || "a size is expected, such as `20 kb`, `5 mb`, `1 g`, or a number of bytes".to_string();
        let text = text.trim();
        let end = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let unit = text[end..].trim().to_ascii_lowercase();
        let Some((_, shift)) = UNITS.iter().find(|(names, _)| names.contains(&unit.as_str())) else {
            return Err(expected());
        };
        if end == 0 {
            return Err(expected());
        }
        let too_large = || "the size is larger than 16 EiB".to_string();
        let number: u64 = text[..end].parse().map_err(|_| too_large())?;
        number.checked_mul(1 << shift).map(Self).ok_or_else(too_large)
    }
}

impl fmt::Display for ByteSize {
    /// The largest unit that divides the size, so that it reads back the same.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, shift) in [("tb", 40), ("gb", 30), ("mb", 20), ("kb", 10)] {
            if self.0 != 0 && self.0.is_multiple_of(1 << shift) {
                return write!(f, "{} {unit}", self.0 >> shift);
            }
        }
        write!(f, "{} b", self.0)
    }
}

impl fmt::Debug for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_as_flink_reads_them() {
        for (text, bytes) in [
            ("20 kb", 20 << 10),
            ("5mb", 5 << 20),
            ("10485760 b", 10 << 20),
            ("1g", 1 << 30),
            ("0 bytes", 0),
            ("2 TebiBytes", 2 << 40),
            ("4096", 4096u64),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
    }

    #[test]
    fn text_that_is_no_size_is_refused() {
        for text in ["", "kb", "-1 kb", "1.5 mb", "5 apples", "99999999999999999999", "17179869184 gb", "5é"]
        {
            assert!(text.parse::<ByteSize>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_written_size_reads_back_the_same() {
        for bytes in [0, 1, 1023, 1024, 1025, 5 << 20, u64::MAX] {
            assert_eq!(ByteSize(bytes).to_string().parse(), Ok(ByteSize(bytes)));
        }
    }
}
