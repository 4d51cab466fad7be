//! The binary form of a [`Schema`]: a version byte, then one tag byte per node.
//!
//! Version 2 also has sets, types that hold themselves, and former names. It is written only where one of
//! these occurs, so that a schema without them is what it was, byte for byte.

use std::sync::Arc;

use crate::{Data, DecodeError, Field, Schema, Variant};

/// The version that every release reads.
const PLAIN: u8 = 1;
/// The newest version.
const VERSION: u8 = 2;
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
        let version = if needs_version_2(self) { VERSION } else { PLAIN };
        let mut out = vec![version];
        Writer { version, out: &mut out }.write(self);
        out
    }

    /// Reads the binary form of any version up to this release's.
    pub fn from_bytes(mut bytes: &[u8]) -> Result<Self, DecodeError> {
        let version = u8::decode(&mut bytes)?;
        if !(PLAIN..=VERSION).contains(&version) {
            let why = format!("its version is {version}, this release reads up to {VERSION}");
            return Err(DecodeError::Invalid { what: "schema", why });
        }
        let schema = Reader { version, around: 0 }.read(&mut bytes, 0)?;
        match bytes {
            [] => Ok(schema),
            rest => Err(DecodeError::Invalid {
                what: "schema",
                why: format!("{} bytes are left over", rest.len()),
            }),
        }
    }
}

fn needs_version_2(schema: &Schema) -> bool {
    let in_fields = |fields: &[Field]| {
        fields.iter().any(|field| !field.aliases.is_empty() || needs_version_2(&field.schema))
    };
    match schema {
        Schema::Set(_) | Schema::Recursive(_) | Schema::Again(_) => true,
        Schema::Primitive(_) | Schema::Opaque(_) => false,
        Schema::Struct { fields, .. } => in_fields(fields),
        Schema::Enum { variants, .. } => {
            variants.iter().any(|variant| !variant.aliases.is_empty() || in_fields(&variant.fields))
        }
        Schema::Option(inner) | Schema::List(inner) | Schema::Array(inner, _) | Schema::Expiring(inner) => {
            needs_version_2(inner)
        }
        Schema::Map(key, value) => needs_version_2(key) || needs_version_2(value),
        Schema::Tuple(parts) => parts.iter().any(needs_version_2),
    }
}

struct Writer<'a> {
    version: u8,
    out: &'a mut Vec<u8>,
}

impl Writer<'_> {
    fn write(&mut self, schema: &Schema) {
        match schema {
            Schema::Primitive(name) => self.named(0, name),
            Schema::Struct { name, fields } => {
                self.named(1, name);
                self.fields(fields);
            }
            Schema::Enum { name, variants } => {
                self.named(2, name);
                (variants.len() as u32).encode(self.out);
                for variant in variants {
                    variant.name.encode(self.out);
                    self.aliases(&variant.aliases);
                    self.fields(&variant.fields);
                }
            }
            Schema::Option(inner) => self.around(3, inner),
            Schema::List(inner) => self.around(4, inner),
            Schema::Map(key, value) => {
                self.around(5, key);
                self.write(value);
            }
            Schema::Tuple(parts) => {
                self.out.push(6);
                (parts.len() as u32).encode(self.out);
                parts.iter().for_each(|part| self.write(part));
            }
            Schema::Opaque(name) => self.named(7, name),
            Schema::Array(inner, n) => {
                self.around(8, inner);
                n.encode(self.out);
            }
            Schema::Expiring(inner) => self.around(9, inner),
            Schema::Set(inner) => self.around(10, inner),
            Schema::Recursive(inner) => self.around(11, inner),
            Schema::Again(n) => {
                self.out.push(12);
                n.encode(self.out);
            }
        }
    }

    fn named(&mut self, tag: u8, name: &String) {
        self.out.push(tag);
        name.encode(self.out);
    }

    fn around(&mut self, tag: u8, inner: &Schema) {
        self.out.push(tag);
        self.write(inner);
    }

    fn fields(&mut self, fields: &[Field]) {
        (fields.len() as u32).encode(self.out);
        for field in fields {
            field.name.encode(self.out);
            field.default.encode(self.out);
            self.aliases(&field.aliases);
            self.write(&field.schema);
        }
    }

    fn aliases(&mut self, aliases: &Vec<String>) {
        if self.version >= VERSION {
            aliases.encode(self.out);
        }
    }
}

struct Reader {
    version: u8,
    /// How many types that hold themselves are around what is read next.
    around: u32,
}

impl Reader {
    fn read(&mut self, input: &mut &[u8], depth: usize) -> Result<Schema, DecodeError> {
        let invalid = |why: String| Err(DecodeError::Invalid { what: "schema", why });
        if depth > DEEPEST {
            return invalid(format!("it nests deeper than {DEEPEST} levels"));
        }
        Ok(match u8::decode(input)? {
            0 => Schema::Primitive(String::decode(input)?),
            1 => Schema::Struct { name: String::decode(input)?, fields: self.fields(input, depth)? },
            2 => {
                let name = String::decode(input)?;
                let mut variants = Vec::new();
                for _ in 0..u32::decode(input)? {
                    let (name, aliases) = (String::decode(input)?, self.aliases(input)?);
                    variants.push(Variant { name, aliases, fields: self.fields(input, depth)? });
                }
                Schema::Enum { name, variants }
            }
            3 => Schema::Option(self.inner(input, depth)?),
            4 => Schema::List(self.inner(input, depth)?),
            5 => Schema::Map(self.inner(input, depth)?, self.inner(input, depth)?),
            6 => {
                let mut parts = Vec::new();
                for _ in 0..u32::decode(input)? {
                    parts.push(self.read(input, depth + 1)?);
                }
                Schema::Tuple(parts)
            }
            7 => Schema::Opaque(String::decode(input)?),
            8 => Schema::Array(self.inner(input, depth)?, u32::decode(input)?),
            9 => Schema::Expiring(self.inner(input, depth)?),
            10 if self.version >= VERSION => Schema::Set(self.inner(input, depth)?),
            11 if self.version >= VERSION => {
                self.around += 1;
                let inner = self.read(input, depth + 1)?;
                self.around -= 1;
                match inner {
                    Schema::Struct { .. } | Schema::Enum { .. } => Schema::Recursive(Arc::new(inner)),
                    other => return invalid(format!("`{other}` cannot hold itself")),
                }
            }
            12 if self.version >= VERSION => match u32::decode(input)? {
                n if n < self.around => Schema::Again(n),
                n => {
                    return invalid(format!(
                        "it refers to type {n} around it, and {} are there",
                        self.around
                    ));
                }
            },
            tag => return invalid(format!("{tag} is no kind of type")),
        })
    }

    fn inner(&mut self, input: &mut &[u8], depth: usize) -> Result<Box<Schema>, DecodeError> {
        self.read(input, depth + 1).map(Box::new)
    }

    fn fields(&mut self, input: &mut &[u8], depth: usize) -> Result<Vec<Field>, DecodeError> {
        let mut fields = Vec::new();
        for _ in 0..u32::decode(input)? {
            let name = String::decode(input)?;
            let default = bool::decode(input)?;
            let aliases = self.aliases(input)?;
            fields.push(Field { name, default, aliases, schema: self.read(input, depth + 1)? });
        }
        Ok(fields)
    }

    fn aliases(&self, input: &mut &[u8]) -> Result<Vec<String>, DecodeError> {
        if self.version >= VERSION { Vec::decode(input) } else { Ok(Vec::new()) }
    }
}
