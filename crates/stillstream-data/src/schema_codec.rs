//! The binary form of a [`Schema`]: a version byte, then one tag byte per node.

use crate::{Data, DecodeError, Field, Schema};

/// The version that this release writes.
const VERSION: u8 = 1;
/// Deeper nesting than any real type has: a damaged schema must not overflow the stack.
const DEEPEST: usize = 128;

impl Schema {
    /// The binary form, as stored in snapshots.
    ///
    /// ```
    /// use stillstream_data::{Data, Schema};
    /// let schema = Vec::<(u64, String)>::schema();
    /// assert_eq!(Schema::from_bytes(&schema.to_bytes()), Ok(schema));
    /// ```
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = vec![VERSION];
        write(self, &mut out);
        out
    }

    /// Reads the binary form of any version up to this release's.
    pub fn from_bytes(mut bytes: &[u8]) -> Result<Self, DecodeError> {
        let version = u8::decode(&mut bytes)?;
        if version != VERSION {
            let why = format!("its version is {version}, this release reads up to {VERSION}");
            return Err(DecodeError::Invalid { what: "schema", why });
        }
        let schema = read(&mut bytes, 0)?;
        match bytes {
            [] => Ok(schema),
            rest => Err(DecodeError::Invalid {
                what: "schema",
                why: format!("{} bytes are left over", rest.len()),
            }),
        }
    }
}

fn write(schema: &Schema, out: &mut Vec<u8>) {
    match schema {
        Schema::Primitive(name) => {
            out.push(0);
            name.encode(out);
        }
        Schema::Struct { name, fields } => {
            out.push(1);
            name.encode(out);
            write_fields(fields, out);
        }
        Schema::Enum { name, variants } => {
            out.push(2);
            name.encode(out);
            (variants.len() as u32).encode(out);
            for (variant, fields) in variants {
                variant.encode(out);
                write_fields(fields, out);
            }
        }
        Schema::Option(inner) => {
            out.push(3);
            write(inner, out);
        }
        Schema::List(inner) => {
            out.push(4);
            write(inner, out);
        }
        Schema::Map(key, value) => {
            out.push(5);
            write(key, out);
            write(value, out);
        }
        Schema::Tuple(parts) => {
            out.push(6);
            (parts.len() as u32).encode(out);
            parts.iter().for_each(|part| write(part, out));
        }
        Schema::Opaque(name) => {
            out.push(7);
            name.encode(out);
        }
        Schema::Array(inner, n) => {
            out.push(8);
            write(inner, out);
            n.encode(out);
        }
        Schema::Expiring(inner) => {
            out.push(9);
            write(inner, out);
        }
    }
}

fn write_fields(fields: &[Field], out: &mut Vec<u8>) {
    (fields.len() as u32).encode(out);
    for field in fields {
        field.name.encode(out);
        field.default.encode(out);
        write(&field.schema, out);
    }
}

fn read(input: &mut &[u8], depth: usize) -> Result<Schema, DecodeError> {
    if depth > DEEPEST {
        let why = format!("it nests deeper than {DEEPEST} levels");
        return Err(DecodeError::Invalid { what: "schema", why });
    }
    let inner = |input: &mut &[u8]| read(input, depth + 1).map(Box::new);
    Ok(match u8::decode(input)? {
        0 => Schema::Primitive(String::decode(input)?),
        1 => Schema::Struct { name: String::decode(input)?, fields: read_fields(input, depth)? },
        2 => {
            let name = String::decode(input)?;
            let mut variants = Vec::new();
            for _ in 0..u32::decode(input)? {
                variants.push((String::decode(input)?, read_fields(input, depth)?));
            }
            Schema::Enum { name, variants }
        }
        3 => Schema::Option(inner(input)?),
        4 => Schema::List(inner(input)?),
        5 => Schema::Map(inner(input)?, inner(input)?),
        6 => {
            let mut parts = Vec::new();
            for _ in 0..u32::decode(input)? {
                parts.push(read(input, depth + 1)?);
            }
            Schema::Tuple(parts)
        }
        7 => Schema::Opaque(String::decode(input)?),
        8 => Schema::Array(inner(input)?, u32::decode(input)?),
        9 => Schema::Expiring(inner(input)?),
        tag => {
            return Err(DecodeError::Invalid { what: "schema", why: format!("{tag} is no kind of type") });
        }
    })
}

fn read_fields(input: &mut &[u8], depth: usize) -> Result<Vec<Field>, DecodeError> {
    let mut fields = Vec::new();
    for _ in 0..u32::decode(input)? {
        let name = String::decode(input)?;
        let default = bool::decode(input)?;
        fields.push(Field { name, default, schema: read(input, depth + 1)? });
    }
    Ok(fields)
}
