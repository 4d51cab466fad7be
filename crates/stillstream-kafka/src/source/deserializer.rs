//! [`KafkaDeserializer`]: makes values of records.

use serde::de::DeserializeOwned;

use super::record::{ConsumerRecord, RawRecord};

/// Why a record is refused; texts and most errors become one by `?`.
pub type Refusal = Box<dyn std::error::Error + Send + Sync>;

/// Makes values of records: none, one or any number of each. It runs on the source's own thread, not on a
/// worker.
///
/// A function is one too:
///
/// ```
/// use stillstream_kafka::source::{ConsumerRecord, KafkaDeserializer, RawRecord, Refusal};
/// /// The words of a line.
/// fn words(record: &ConsumerRecord<'_>, out: &mut Vec<String>) -> Result<(), Refusal> {
///     let line = std::str::from_utf8(record.value.ok_or("there is no value")?)?;
///     out.extend(line.split_whitespace().map(String::from));
///     Ok(())
/// }
/// # let record = RawRecord {
/// #     topic: "in".into(), partition: 0, offset: 0,
/// #     timestamp: stillstream_types::Timestamp::from_millis(0),
/// #     key: None, value: Some(b"to be".to_vec()), headers: vec![],
/// # };
/// let mut out = Vec::new();
/// words.deserialize(&record.as_consumer_record(), &mut out)?;
/// assert_eq!(out, ["to", "be"]);
/// # Ok::<(), Refusal>(())
/// ```
pub trait KafkaDeserializer<T>: Send + Sync + 'static {
    /// Appends the values of a record to `out`.
    ///
    /// # Errors
    /// The record is refused, and [`OnBadRecord`](super::OnBadRecord) says what becomes of it. What was
    /// appended for it does not count.
    fn deserialize(&self, record: &ConsumerRecord<'_>, out: &mut Vec<T>) -> Result<(), Refusal>;
}

impl<T, F> KafkaDeserializer<T> for F
where
    F: Fn(&ConsumerRecord<'_>, &mut Vec<T>) -> Result<(), Refusal> + Send + Sync + 'static,
{
    fn deserialize(&self, record: &ConsumerRecord<'_>, out: &mut Vec<T>) -> Result<(), Refusal> {
        self(record, out)
    }
}

fn value<'a>(record: &ConsumerRecord<'a>) -> Result<&'a [u8], Refusal> {
    record.value.ok_or_else(|| "the record has no value (it is a tombstone)".into())
}

/// Each value is a JSON text.
#[derive(Clone, Copy, Debug, Default)]
pub struct Json;

impl<T: DeserializeOwned> KafkaDeserializer<T> for Json {
    fn deserialize(&self, record: &ConsumerRecord<'_>, out: &mut Vec<T>) -> Result<(), Refusal> {
        out.push(serde_json::from_slice(value(record)?)?);
        Ok(())
    }
}

/// Each value is a text in UTF-8.
#[derive(Clone, Copy, Debug, Default)]
pub struct Text;

impl KafkaDeserializer<String> for Text {
    fn deserialize(&self, record: &ConsumerRecord<'_>, out: &mut Vec<String>) -> Result<(), Refusal> {
        out.push(std::str::from_utf8(value(record)?)?.to_string());
        Ok(())
    }
}

/// The records themselves, tombstones too.
#[derive(Clone, Copy, Debug, Default)]
pub struct Raw;

impl KafkaDeserializer<RawRecord> for Raw {
    fn deserialize(&self, record: &ConsumerRecord<'_>, out: &mut Vec<RawRecord>) -> Result<(), Refusal> {
        out.push(record.to_raw());
        Ok(())
    }
}
