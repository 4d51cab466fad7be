//! Writing.

use serde::ser::{self, Serialize};

use super::{DEEPEST, FormError, tag};

/// Appends the form of a value.
pub(crate) fn to_bytes<T: Serialize>(value: &T, out: &mut Vec<u8>) -> Result<(), FormError> {
    value.serialize(&mut Writer { out, depth: 0 })
}

struct Writer<'a> {
    out: &'a mut Vec<u8>,
    depth: u32,
}

impl Writer<'_> {
    fn number(&mut self, mut n: u64) {
        while n >= 0x80 {
            self.out.push(n as u8 | 0x80);
            n >>= 7;
        }
        self.out.push(n as u8);
    }

    fn text(&mut self, tag: u8, bytes: &[u8]) {
        self.out.push(tag);
        self.number(bytes.len() as u64);
        self.out.extend_from_slice(bytes);
    }

    fn deeper(&mut self) -> Result<(), FormError> {
        self.depth += 1;
        if self.depth > DEEPEST { Err(FormError::too_deep()) } else { Ok(()) }
    }
}

/// A list or map under way. Its count is filled in at its end: fields may be skipped, and lengths be unknown.
struct Items<'a, 'b> {
    writer: &'a mut Writer<'b>,
    at: usize,
    count: u32,
    /// The map around a variant's value ends with it.
    variant: bool,
}

impl<'a, 'b> Items<'a, 'b> {
    fn begin(writer: &'a mut Writer<'b>, tag: u8, variant: bool) -> Result<Self, FormError> {
        writer.deeper()?;
        writer.out.push(tag);
        let at = writer.out.len();
        writer.out.extend_from_slice(&[0; 4]);
        Ok(Self { writer, at, count: 0, variant })
    }

    /// The items of a variant: a map with one entry, as [`serde_json`](https://docs.rs/serde_json) writes it.
    fn of_variant(writer: &'a mut Writer<'b>, tag: u8, name: &str) -> Result<Self, FormError> {
        begin_variant(writer, name)?;
        Self::begin(writer, tag, true)
    }

    fn item<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), FormError> {
        self.count += 1;
        value.serialize(&mut *self.writer)
    }

    fn field<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<(), FormError> {
        self.writer.text(tag::STR, name.as_bytes());
        self.item(value)
    }

    fn done(self) -> Result<(), FormError> {
        self.writer.out[self.at..self.at + 4].copy_from_slice(&self.count.to_le_bytes());
        self.writer.depth -= 1 + u32::from(self.variant);
        Ok(())
    }
}

fn begin_variant(writer: &mut Writer<'_>, name: &str) -> Result<(), FormError> {
    writer.deeper()?;
    writer.out.push(tag::MAP);
    writer.out.extend_from_slice(&1u32.to_le_bytes());
    writer.text(tag::STR, name.as_bytes());
    Ok(())
}

impl<'a, 'b> ser::Serializer for &'a mut Writer<'b> {
    type Ok = ();
    type Error = FormError;
    type SerializeSeq = Items<'a, 'b>;
    type SerializeTuple = Items<'a, 'b>;
    type SerializeTupleStruct = Items<'a, 'b>;
    type SerializeTupleVariant = Items<'a, 'b>;
    type SerializeMap = Items<'a, 'b>;
    type SerializeStruct = Items<'a, 'b>;
    type SerializeStructVariant = Items<'a, 'b>;

    fn serialize_bool(self, v: bool) -> Result<(), FormError> {
        self.out.push(if v { tag::TRUE } else { tag::FALSE });
        Ok(())
    }

    fn serialize_i8(self, v: i8) -> Result<(), FormError> {
        self.serialize_i64(v.into())
    }

    fn serialize_i16(self, v: i16) -> Result<(), FormError> {
        self.serialize_i64(v.into())
    }

    fn serialize_i32(self, v: i32) -> Result<(), FormError> {
        self.serialize_i64(v.into())
    }

    fn serialize_i64(self, v: i64) -> Result<(), FormError> {
        self.out.push(tag::SIGNED);
        self.number(((v << 1) ^ (v >> 63)) as u64);
        Ok(())
    }

    fn serialize_i128(self, v: i128) -> Result<(), FormError> {
        self.out.push(tag::I128);
        self.out.extend_from_slice(&v.to_le_bytes());
        Ok(())
    }

    fn serialize_u8(self, v: u8) -> Result<(), FormError> {
        self.serialize_u64(v.into())
    }

    fn serialize_u16(self, v: u16) -> Result<(), FormError> {
        self.serialize_u64(v.into())
    }

    fn serialize_u32(self, v: u32) -> Result<(), FormError> {
        self.serialize_u64(v.into())
    }

    fn serialize_u64(self, v: u64) -> Result<(), FormError> {
        self.out.push(tag::UNSIGNED);
        self.number(v);
        Ok(())
    }

    fn serialize_u128(self, v: u128) -> Result<(), FormError> {
        self.out.push(tag::U128);
        self.out.extend_from_slice(&v.to_le_bytes());
        Ok(())
    }

    fn serialize_f32(self, v: f32) -> Result<(), FormError> {
        self.out.push(tag::F32);
        self.out.extend_from_slice(&v.to_bits().to_le_bytes());
        Ok(())
    }

    fn serialize_f64(self, v: f64) -> Result<(), FormError> {
        self.out.push(tag::F64);
        self.out.extend_from_slice(&v.to_bits().to_le_bytes());
        Ok(())
    }

    fn serialize_char(self, v: char) -> Result<(), FormError> {
        self.out.push(tag::CHAR);
        self.number(u32::from(v).into());
        Ok(())
    }

    fn serialize_str(self, v: &str) -> Result<(), FormError> {
        self.text(tag::STR, v.as_bytes());
        Ok(())
    }

    fn serialize_bytes(self, v: &[u8]) -> Result<(), FormError> {
        self.text(tag::BYTES, v);
        Ok(())
    }

    fn serialize_none(self) -> Result<(), FormError> {
        self.out.push(tag::NONE);
        Ok(())
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), FormError> {
        self.deeper()?;
        self.out.push(tag::SOME);
        value.serialize(&mut *self)?;
        self.depth -= 1;
        Ok(())
    }

    fn serialize_unit(self) -> Result<(), FormError> {
        self.out.push(tag::UNIT);
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), FormError> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), FormError> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), FormError> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), FormError> {
        begin_variant(self, variant)?;
        value.serialize(&mut *self)?;
        self.depth -= 1;
        Ok(())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Items<'a, 'b>, FormError> {
        Items::begin(self, tag::LIST, false)
    }

    fn serialize_tuple(self, _: usize) -> Result<Items<'a, 'b>, FormError> {
        Items::begin(self, tag::LIST, false)
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Items<'a, 'b>, FormError> {
        Items::begin(self, tag::LIST, false)
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Items<'a, 'b>, FormError> {
        Items::of_variant(self, tag::LIST, variant)
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Items<'a, 'b>, FormError> {
        Items::begin(self, tag::MAP, false)
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Items<'a, 'b>, FormError> {
        Items::begin(self, tag::MAP, false)
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<Items<'a, 'b>, FormError> {
        Items::of_variant(self, tag::MAP, variant)
    }

    fn is_human_readable(&self) -> bool {
        true
    }
}

macro_rules! lists {
    ($($trait:ident::$method:ident),*) => {$(
        impl ser::$trait for Items<'_, '_> {
            type Ok = ();
            type Error = FormError;
            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), FormError> {
                self.item(value)
            }
            fn end(self) -> Result<(), FormError> {
                self.done()
            }
        }
    )*};
}

lists!(
    SerializeSeq::serialize_element,
    SerializeTuple::serialize_element,
    SerializeTupleStruct::serialize_field,
    SerializeTupleVariant::serialize_field
);

macro_rules! structs {
    ($($trait:ident),*) => {$(
        impl ser::$trait for Items<'_, '_> {
            type Ok = ();
            type Error = FormError;
            fn serialize_field<T: Serialize + ?Sized>(&mut self, name: &'static str, value: &T) -> Result<(), FormError> {
                self.field(name, value)
            }
            fn end(self) -> Result<(), FormError> {
                self.done()
            }
        }
    )*};
}

structs!(SerializeStruct, SerializeStructVariant);

impl ser::SerializeMap for Items<'_, '_> {
    type Ok = ();
    type Error = FormError;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), FormError> {
        key.serialize(&mut *self.writer)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), FormError> {
        self.item(value)
    }

    fn end(self) -> Result<(), FormError> {
        self.done()
    }
}
