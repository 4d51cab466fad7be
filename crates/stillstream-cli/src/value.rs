//! Values by their schemas alone, as JSON.

use serde_json::{Map, Number, Value, json};
use std::net::{Ipv4Addr, Ipv6Addr};

use stillstream_state::{Around, Data, DecodeError, Field, Schema, Variant};

/// Items of a list or map that are shown at most.
const ITEMS: usize = 100;

fn bytes<'a>(n: usize, input: &mut &'a [u8]) -> Result<&'a [u8], DecodeError> {
    let (taken, rest) = input.split_at_checked(n).ok_or(DecodeError::Short { what: "value" })?;
    *input = rest;
    Ok(taken)
}

/// Reads one value. What JSON has no number for becomes a string.
pub(crate) fn show(schema: &Schema, input: &mut &[u8]) -> Result<Value, DecodeError> {
    part(schema, &mut Around::default(), input)
}

/// Reads a part of a value; types that hold themselves are around it.
fn part(schema: &Schema, around: &mut Around, input: &mut &[u8]) -> Result<Value, DecodeError> {
    Ok(match schema {
        Schema::Primitive(name) => return primitive(name, input),
        Schema::Struct { fields, .. } => record(fields, around, input)?,
        Schema::Enum { name, variants } => {
            let at = u32::decode(input)?;
            let Variant { name: variant, fields, .. } =
                variants.get(at as usize).ok_or_else(|| DecodeError::Invalid {
                    what: "enum",
                    why: format!("variant {at} of {} in `{name}`", variants.len()),
                })?;
            match fields.is_empty() {
                true => json!(variant),
                false => json!({ variant: record(fields, around, input)? }),
            }
        }
        Schema::Option(inner) => match bool::decode(input)? {
            true => part(inner, around, input)?,
            false => Value::Null,
        },
        Schema::List(inner) | Schema::Set(inner) => {
            let n = u32::decode(input)?;
            items(inner, n, around, input)?
        }
        Schema::Array(inner, n) => items(inner, *n, around, input)?,
        Schema::Map(key, value) => {
            let (n, mut shown) = (u32::decode(input)?, Vec::new());
            for at in 0..n {
                let before = input.len();
                let entry = json!([part(key, around, input)?, part(value, around, input)?]);
                if (at as usize) < ITEMS {
                    shown.push(entry);
                }
                if before == input.len() {
                    break;
                }
            }
            more(&mut shown, n);
            Value::Array(shown)
        }
        Schema::Tuple(parts) => {
            Value::Array(parts.iter().map(|schema| part(schema, around, input)).collect::<Result<_, _>>()?)
        }
        Schema::Expiring(inner) => {
            let touched = i64::decode(input)?;
            json!({ "value": part(inner, around, input)?, "touched": crate::table::moment(touched) })
        }
        Schema::Recursive(_) | Schema::Again(_) => {
            return around.within(schema, |body, around| part(body, around, input));
        }
        Schema::Opaque(_) => {
            let len = u32::decode(input)?;
            json!(hex(bytes(len as usize, input)?))
        }
    })
}

/// Says that a list goes on.
fn more(shown: &mut Vec<Value>, n: u32) {
    if n as usize > ITEMS {
        shown.push(json!(format!("... {} more", n as usize - ITEMS)));
    }
}

fn items(inner: &Schema, n: u32, around: &mut Around, input: &mut &[u8]) -> Result<Value, DecodeError> {
    let mut shown = Vec::new();
    for at in 0..n {
        let before = input.len();
        let item = part(inner, around, input)?;
        if (at as usize) < ITEMS {
            shown.push(item);
        }
        if before == input.len() {
            break; // items without a form
        }
    }
    more(&mut shown, n);
    Ok(Value::Array(shown))
}

fn record(fields: &[Field], around: &mut Around, input: &mut &[u8]) -> Result<Value, DecodeError> {
    // of a tuple struct: its fields are numbered
    if fields.iter().enumerate().all(|(at, field)| field.name == at.to_string()) {
        let mut parts =
            fields.iter().map(|field| part(&field.schema, around, input)).collect::<Result<Vec<_>, _>>()?;
        return Ok(if parts.len() == 1 { parts.remove(0) } else { Value::Array(parts) });
    }
    let mut shown = Map::new();
    for field in fields {
        shown.insert(field.name.clone(), part(&field.schema, around, input)?);
    }
    Ok(Value::Object(shown))
}

fn primitive(name: &str, input: &mut &[u8]) -> Result<Value, DecodeError> {
    let float = |value: f64| Number::from_f64(value).map_or_else(|| json!(value.to_string()), Value::Number);
    Ok(match name {
        "unit" => Value::Null,
        "bool" => json!(bool::decode(input)?),
        "char" => json!(char::decode(input)?),
        "string" => json!(String::decode(input)?),
        "u8" => json!(u8::decode(input)?),
        "u16" => json!(u16::decode(input)?),
        "u32" => json!(u32::decode(input)?),
        "u64" => json!(u64::decode(input)?),
        "u128" => json!(u128::decode(input)?.to_string()),
        "i8" => json!(i8::decode(input)?),
        "i16" => json!(i16::decode(input)?),
        "i32" => json!(i32::decode(input)?),
        "i64" => json!(i64::decode(input)?),
        "i128" => json!(i128::decode(input)?.to_string()),
        "f32" => float(f32::decode(input)?.into()),
        "f64" => float(f64::decode(input)?),
        "timestamp" => json!(crate::table::moment(i64::decode(input)?)),
        "duration" => {
            let (seconds, nanos) = (u64::decode(input)?, u32::decode(input)?);
            json!(format!("{seconds}.{nanos:09} s"))
        }
        "ipv4" => json!(Ipv4Addr::decode(input)?.to_string()),
        "ipv6" => json!(Ipv6Addr::decode(input)?.to_string()),
        "system-time" | "date-time" | "local-date-time" => {
            let (seconds, nanos) = (i64::decode(input)?, u32::decode(input)?);
            let millis = seconds.saturating_mul(1000).saturating_add(i64::from(nanos / 1_000_000));
            json!(crate::table::moment(millis))
        }
        "date" => {
            let day = crate::table::moment(i64::from(i32::decode(input)?) * 86_400_000);
            json!(day.split_once(' ').map_or(&*day, |(date, _)| date))
        }
        "time-of-day" => {
            let (seconds, nanos) = (u32::decode(input)?, u32::decode(input)?);
            json!(format!("{:02}:{:02}:{:02}.{nanos:09}", seconds / 3600, seconds / 60 % 60, seconds % 60))
        }
        "time-delta" => {
            let (seconds, nanos) = (i64::decode(input)?, u32::decode(input)?);
            json!(format!("{seconds} s + {nanos} ns"))
        }
        "uuid" => json!(uuid(bytes(16, input)?)),
        "decimal" => json!(decimal(bytes(16, input)?)),
        other => {
            let why = format!("the form of the primitive `{other}` is not known to this release");
            return Err(DecodeError::Invalid { what: "value", why });
        }
    })
}

fn uuid(bytes: &[u8]) -> String {
    let mut text = String::new();
    for (at, byte) in bytes.iter().enumerate() {
        text.push_str(if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" });
        text.push_str(&format!("{byte:02x}"));
    }
    text
}

/// The form of `rust_decimal`: flags with scale and sign, then 96 bits, all little-endian.
fn decimal(bytes: &[u8]) -> String {
    let whole = bytes[4..16].iter().rev().fold(0u128, |whole, byte| whole << 8 | u128::from(*byte));
    let (scale, minus) = (usize::from(bytes[2]), if bytes[3] & 0x80 == 0 { "" } else { "-" });
    let digits = format!("{whole:0>width$}", width = scale + 1);
    let (integer, fraction) = digits.split_at(digits.len() - scale);
    match scale {
        0 => format!("{minus}{integer}"),
        _ => format!("{minus}{integer}.{fraction}"),
    }
}

pub(crate) fn hex(bytes: &[u8]) -> String {
    let shown: String = bytes.iter().take(ITEMS).map(|byte| format!("{byte:02x}")).collect();
    if bytes.len() > ITEMS { format!("0x{shown}... ({} bytes)", bytes.len()) } else { format!("0x{shown}") }
}

/// Whether a shown key is the one that a person typed: as JSON, or as the plain text of a string.
pub(crate) fn is_key(shown: &Value, typed: &str) -> bool {
    match shown {
        Value::String(text) if text == typed => true,
        _ => serde_json::from_str::<Value>(typed).is_ok_and(|typed| typed == *shown),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_shown_by_its_schema_alone_and_torn_bytes_are_an_error() {
        type Row = (u64, Option<String>, Vec<(i32, f64)>);
        let row: Row = (7, Some("late".into()), vec![(-1, 0.5)]);
        let mut encoded = Vec::new();
        row.encode(&mut encoded);
        let schema = Row::schema();
        let mut input = &encoded[..];
        let shown = show(&schema, &mut input).unwrap();
        assert_eq!((shown, input), (json!([7, "late", [[-1, 0.5]]]), &[][..]));
        for cut in 0..encoded.len() {
            assert!(show(&schema, &mut &encoded[..cut]).is_err(), "cut at {cut}");
        }
    }

    #[test]
    fn a_key_is_found_as_json_and_as_plain_text() {
        assert!(is_key(&json!("AA"), "AA") && is_key(&json!("AA"), "\"AA\""));
        assert!(is_key(&json!([1, "x"]), "[1, \"x\"]") && !is_key(&json!(7), "70"));
    }
}
