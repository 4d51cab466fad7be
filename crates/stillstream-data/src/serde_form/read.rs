//! Reading.

use serde::de::{self, DeserializeOwned, DeserializeSeed, IntoDeserializer, Unexpected, Visitor};
use serde::forward_to_deserialize_any;

use super::{DEEPEST, FormError, tag};

/// Reads a value; all bytes must be its own.
pub(crate) fn from_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, FormError> {
    let mut reader = Reader { rest: bytes, depth: 0 };
    let value = T::deserialize(&mut reader)?;
    match reader.rest.len() {
        0 => Ok(value),
        left => Err(FormError(format!("{left} bytes are left over"))),
    }
}

struct Reader<'de> {
    rest: &'de [u8],
    depth: u32,
}

impl<'de> Reader<'de> {
    fn take(&mut self, len: usize) -> Result<&'de [u8], FormError> {
        let (taken, rest) =
            self.rest.split_at_checked(len).ok_or_else(|| FormError("the bytes end too early".into()))?;
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], FormError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    fn byte(&mut self) -> Result<u8, FormError> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn number(&mut self) -> Result<u64, FormError> {
        let mut n = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            n |= bits << shift;
            if byte < 0x80 {
                return Ok(n);
            }
        }
        Err(FormError("a number has more than 64 bits".into()))
    }

    fn text(&mut self) -> Result<&'de [u8], FormError> {
        let len = self.number()?;
        // a length beyond the address space is beyond the bytes too
        self.take(usize::try_from(len).unwrap_or(usize::MAX))
    }

    fn str(&mut self) -> Result<&'de str, FormError> {
        std::str::from_utf8(self.text()?).map_err(|_| FormError("a string is not UTF-8".into()))
    }

    fn count(&mut self) -> Result<u32, FormError> {
        self.array().map(u32::from_le_bytes)
    }

    fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    fn nested<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, FormError>) -> Result<T, FormError> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(FormError::too_deep());
        }
        let value = read(self)?;
        self.depth -= 1;
        Ok(value)
    }

    /// Runs a visitor over the items that follow; one that leaves some of them would read the next value at a
    /// wrong place.
    fn items<T>(
        &mut self,
        visit: impl FnOnce(&mut Items<'_, 'de>) -> Result<T, FormError>,
    ) -> Result<T, FormError> {
        self.nested(|reader| {
            let left = reader.count()?;
            let mut items = Items { reader, left };
            let value = visit(&mut items)?;
            match items.left {
                0 => Ok(value),
                left => Err(FormError(format!("{left} items too many are in a list or map"))),
            }
        })
    }
}

impl<'de> de::Deserializer<'de> for &mut Reader<'de> {
    type Error = FormError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FormError> {
        match self.byte()? {
            tag::UNIT => visitor.visit_unit(),
            tag::NONE => visitor.visit_none(),
            tag::SOME => self.nested(|reader| visitor.visit_some(reader)),
            tag::FALSE => visitor.visit_bool(false),
            tag::TRUE => visitor.visit_bool(true),
            tag::UNSIGNED => visitor.visit_u64(self.number()?),
            tag::SIGNED => {
                let n = self.number()?;
                visitor.visit_i64((n >> 1) as i64 ^ -((n & 1) as i64))
            }
            tag::U128 => visitor.visit_u128(u128::from_le_bytes(self.array()?)),
            tag::I128 => visitor.visit_i128(i128::from_le_bytes(self.array()?)),
            tag::F32 => visitor.visit_f32(f32::from_bits(u32::from_le_bytes(self.array()?))),
            tag::F64 => visitor.visit_f64(f64::from_bits(u64::from_le_bytes(self.array()?))),
            tag::CHAR => {
                let code = self.number()?;
                let found = u32::try_from(code).ok().and_then(char::from_u32);
                visitor.visit_char(found.ok_or_else(|| FormError(format!("{code} is no character")))?)
            }
            tag::STR => visitor.visit_borrowed_str(self.str()?),
            tag::BYTES => visitor.visit_borrowed_bytes(self.text()?),
            tag::LIST => self.items(|items| visitor.visit_seq(items)),
            tag::MAP => self.items(|items| visitor.visit_map(items)),
            other => Err(FormError(format!("there is no kind of value {other}"))),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, FormError> {
        match self.peek() {
            Some(tag::NONE | tag::SOME) => self.deserialize_any(visitor),
            // a type may write what it reads as an option without saying so, `serde_json::Value` for one
            Some(tag::UNIT) => {
                self.byte()?;
                visitor.visit_none()
            }
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, FormError> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _: &'static str,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FormError> {
        match self.byte()? {
            tag::STR => visitor.visit_enum(self.str()?.into_deserializer()),
            tag::MAP => self.items(|items| match items.left {
                1 => visitor.visit_enum(items),
                _ => Err(de::Error::invalid_value(Unexpected::Map, &"a variant: a map with one entry")),
            }),
            other => Err(FormError(format!("a variant is expected, and a value of kind {other} was found"))),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }

    fn is_human_readable(&self) -> bool {
        true
    }
}

/// The items of a list, the entries of a map, or a variant with its value.
struct Items<'a, 'de> {
    reader: &'a mut Reader<'de>,
    left: u32,
}

impl<'de> Items<'_, 'de> {
    fn hint(&self) -> Option<usize> {
        // each item has at least one byte: damaged bytes reserve no more than there is
        Some((self.left as usize).min(self.reader.rest.len()))
    }
}

impl<'de> de::SeqAccess<'de> for &mut Items<'_, 'de> {
    type Error = FormError;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, FormError> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        seed.deserialize(&mut *self.reader).map(Some)
    }

    fn size_hint(&self) -> Option<usize> {
        self.hint()
    }
}

impl<'de> de::MapAccess<'de> for &mut Items<'_, 'de> {
    type Error = FormError;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, FormError> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        seed.deserialize(&mut *self.reader).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, FormError> {
        seed.deserialize(&mut *self.reader)
    }

    fn size_hint(&self) -> Option<usize> {
        self.hint()
    }
}

impl<'a, 'b, 'de> de::EnumAccess<'de> for &'a mut Items<'b, 'de> {
    type Error = FormError;
    type Variant = Self;

    fn variant_seed<V: DeserializeSeed<'de>>(self, seed: V) -> Result<(V::Value, Self), FormError> {
        self.left = 0;
        let variant = seed.deserialize(&mut *self.reader)?;
        Ok((variant, self))
    }
}

impl<'de> de::VariantAccess<'de> for &mut Items<'_, 'de> {
    type Error = FormError;

    fn unit_variant(self) -> Result<(), FormError> {
        de::Deserialize::deserialize(&mut *self.reader)
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, FormError> {
        seed.deserialize(&mut *self.reader)
    }

    fn tuple_variant<V: Visitor<'de>>(self, _: usize, visitor: V) -> Result<V::Value, FormError> {
        de::Deserializer::deserialize_any(&mut *self.reader, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        _: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, FormError> {
        de::Deserializer::deserialize_any(&mut *self.reader, visitor)
    }
}
