//! Types of other crates, each with the cargo feature that has the crate's name.

#[cfg(feature = "chrono")]
mod of_chrono {
    use chrono::{DateTime, FixedOffset, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Timelike, Utc};

    use crate::{Data, DecodeError, Schema};

    fn invalid(what: &'static str, why: impl std::fmt::Display) -> DecodeError {
        DecodeError::Invalid { what, why: format!("{why} is out of range") }
    }

    /// Days from the year 1 to 1970.
    const UNTIL_1970: i32 = 719_163;

    /// Days since 1970, as `i32`.
    impl Data for NaiveDate {
        fn encode(&self, out: &mut Vec<u8>) {
            (chrono::Datelike::num_days_from_ce(self) - UNTIL_1970).encode(out);
        }
        fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
            let days = i32::decode(input)?;
            let day = days.checked_add(UNTIL_1970).and_then(Self::from_num_days_from_ce_opt);
            day.ok_or_else(|| invalid("date", format!("day {days} from 1970")))
        }
        fn schema() -> Schema {
            Schema::primitive("date")
        }
    }

    /// Seconds since midnight and nanoseconds since then, as `u32` each; in a leap second they are more than
    /// a second.
    impl Data for NaiveTime {
        fn encode(&self, out: &mut Vec<u8>) {
            self.num_seconds_from_midnight().encode(out);
            self.nanosecond().encode(out);
        }
        fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
            let (seconds, nanos) = (u32::decode(input)?, u32::decode(input)?);
            Self::from_num_seconds_from_midnight_opt(seconds, nanos)
                .ok_or_else(|| invalid("time of day", format!("{seconds} s and {nanos} ns")))
        }
        fn schema() -> Schema {
            Schema::primitive("time-of-day")
        }
    }

    /// Seconds since 1970 as `i64`, rounded down, and nanoseconds since then as `u32`.
    impl Data for DateTime<Utc> {
        fn encode(&self, out: &mut Vec<u8>) {
            self.timestamp().encode(out);
            self.timestamp_subsec_nanos().encode(out);
        }
        fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
            let (seconds, nanos) = (i64::decode(input)?, u32::decode(input)?);
            Self::from_timestamp(seconds, nanos)
                .ok_or_else(|| invalid("date and time", format!("{seconds} s and {nanos} ns")))
        }
        fn schema() -> Schema {
            Schema::primitive("date-time")
        }
    }

    /// As a time in UTC.
    impl Data for NaiveDateTime {
        fn encode(&self, out: &mut Vec<u8>) {
            self.and_utc().encode(out);
        }
        fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
            DateTime::<Utc>::decode(input).map(|time| time.naive_utc())
        }
        fn schema() -> Schema {
            Schema::primitive("local-date-time")
        }
    }

    /// The time in UTC, and by how many seconds local time is ahead of it, as `i32`. Two that are equal may
    /// differ in that.
    impl Data for DateTime<FixedOffset> {
        const ONE_FORM: bool = false;

        fn encode(&self, out: &mut Vec<u8>) {
            self.to_utc().encode(out);
            self.offset().local_minus_utc().encode(out);
        }
        fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
            let (utc, ahead) = (DateTime::<Utc>::decode(input)?, i32::decode(input)?);
            let offset =
                FixedOffset::east_opt(ahead).ok_or_else(|| invalid("offset", format!("{ahead} s")))?;
            // local time has the same range
            match utc.naive_utc().checked_add_offset(offset) {
                Some(_) => Ok(utc.with_timezone(&offset)),
                None => Err(invalid("date and time", utc)),
            }
        }
        fn schema() -> Schema {
            <(DateTime<Utc>, i32)>::schema()
        }
    }

    /// Seconds as `i64`, rounded down, and nanoseconds on top as `u32`.
    impl Data for TimeDelta {
        fn encode(&self, out: &mut Vec<u8>) {
            let (seconds, nanos) = (self.num_seconds(), self.subsec_nanos());
            let (seconds, nanos) =
                if nanos < 0 { (seconds - 1, nanos + 1_000_000_000) } else { (seconds, nanos) };
            seconds.encode(out);
            (nanos as u32).encode(out);
        }
        fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
            let (seconds, nanos) = (i64::decode(input)?, u32::decode(input)?);
            Self::new(seconds, nanos)
                .ok_or_else(|| invalid("time difference", format!("{seconds} s and {nanos} ns")))
        }
        fn schema() -> Schema {
            Schema::primitive("time-delta")
        }
    }
}

#[cfg(feature = "uuid")]
mod of_uuid {
    use uuid::Uuid;

    use crate::{Data, DecodeError, Schema};

    /// The 16 bytes, in the order in which one writes them.
    impl Data for Uuid {
        fn encode(&self, out: &mut Vec<u8>) {
            out.extend_from_slice(self.as_bytes());
        }
        fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
            <[u8; 16]>::decode(input).map(Self::from_bytes)
        }
        fn schema() -> Schema {
            Schema::primitive("uuid")
        }
    }
}

#[cfg(feature = "bytes")]
mod of_bytes {
    use bytes::Bytes;

    use crate::{Data, DecodeError, KeyHasher, Schema};

    /// The form of a `Vec<u8>`: a program may change from one to the other.
    impl Data for Bytes {
        fn encode(&self, out: &mut Vec<u8>) {
            (self.len() as u32).encode(out);
            out.extend_from_slice(self);
        }
        fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
            Vec::<u8>::decode(input).map(Self::from)
        }
        fn schema() -> Schema {
            Vec::<u8>::schema()
        }
        fn hash_key(&self, hasher: &mut KeyHasher) {
            hasher.bytes(self);
        }
    }
}

#[cfg(feature = "rust_decimal")]
mod of_decimal {
    use rust_decimal::Decimal;

    use crate::{Data, DecodeError, Schema};

    /// The crate's own 16 bytes, scale included: 1.0 and 1.00 are equal and have two forms.
    impl Data for Decimal {
        const ONE_FORM: bool = false;

        fn encode(&self, out: &mut Vec<u8>) {
            out.extend_from_slice(&self.serialize());
        }
        fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
            <[u8; 16]>::decode(input).map(Self::deserialize)
        }
        fn schema() -> Schema {
            Schema::primitive("decimal")
        }
    }
}
