//! Tuples of up to eight parts, and the unit.

use crate::{Data, DecodeError, KeyHasher, Schema};

impl Data for () {
    fn encode(&self, _: &mut Vec<u8>) {}
    fn decode(_: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok(())
    }
    fn schema() -> Schema {
        Schema::Primitive("unit".into())
    }
    fn hash_key(&self, hasher: &mut KeyHasher) {
        hasher.int(0);
    }
}

macro_rules! tuple {
    ($($part:ident $at:tt),+) => {
        impl<$($part: Data),+> Data for ($($part,)+) {
            const DEPTH: usize = {
                let mut deepest = 0;
                $(if $part::DEPTH > deepest { deepest = $part::DEPTH; })+
                deepest + 1
            };
            const ONE_FORM: bool = $($part::ONE_FORM)&&+;

            #[inline(always)]
            fn encode(&self, out: &mut Vec<u8>) {
                $(self.$at.encode(out);)+
            }
            #[inline(always)]
            fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
                Ok(($($part::decode(input)?,)+))
            }
            fn schema() -> Schema {
                Schema::Tuple(vec![$($part::schema()),+])
            }
            fn decode_evolved(stored: &Schema, input: &mut &[u8]) -> Result<Self, DecodeError> {
                let Schema::Tuple(parts) = stored else { return Err(DecodeError::other_form("tuple", stored)) };
                Ok(($({
                    let part = parts.get($at).ok_or_else(|| DecodeError::other_form("tuple", stored))?;
                    $part::decode_evolved(part, input)?
                },)+))
            }
            #[inline(always)]
            fn hash_key(&self, hasher: &mut KeyHasher) {
                $(self.$at.hash_key(hasher);)+
            }
            #[inline(always)]
            fn prefetch(&self) {
                $(self.$at.prefetch();)+
            }
        }
    };
}

tuple!(A 0);
tuple!(A 0, B 1);
tuple!(A 0, B 1, C 2);
tuple!(A 0, B 1, C 2, D 3);
tuple!(A 0, B 1, C 2, D 3, E 4);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
tuple!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
