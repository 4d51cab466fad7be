//! [`Sift`]: what has expired of an entry in binary form, where the program's types are out of sight.

use crate::StateKind;
use crate::data::{Data, DecodeError, STAMP_BYTES, Schema};
use crate::meta::StateMeta;

/// Where the times lie in an entry's value.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Stamps {
    /// At its front.
    Front,
    /// At the front of each item of a list, or of the value of each entry of a map, behind its key.
    Each(Option<Schema>, Schema),
}

/// Tells which parts of a state's entries have expired.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sift(Stamps);

/// What is left of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sifted {
    /// All of it.
    All,
    /// Without so many parts.
    Less(u64),
    /// All its parts have expired: so many.
    Nothing(u64),
}

impl Sift {
    /// For entries in canonical form; none for a state without a time to live.
    pub fn canonical(meta: &StateMeta) -> Option<Self> {
        match (meta.kind, &meta.value) {
            (StateKind::List, Schema::List(item)) => Self::each(None, item),
            (StateKind::Map, Schema::Map(key, value)) => Self::each(Some(key), value),
            (_, Schema::Expiring(_)) => Some(Self(Stamps::Front)),
            _ => None,
        }
    }

    /// The same where the entries of a map lie one by one, as they do in RocksDB.
    pub fn with_maps_apart(meta: &StateMeta) -> Option<Self> {
        match (meta.kind, &meta.value) {
            (StateKind::Map, Schema::Map(_, value)) if matches!(**value, Schema::Expiring(_)) => {
                Some(Self(Stamps::Front))
            }
            (StateKind::Map, _) => None,
            _ => Self::canonical(meta),
        }
    }

    fn each(key: Option<&Schema>, part: &Schema) -> Option<Self> {
        let Schema::Expiring(value) = part else { return None };
        // what cannot be passed over stays until it is read
        let known = value.can_skip() && key.is_none_or(Schema::can_skip);
        known.then(|| Self(Stamps::Each(key.cloned(), value.as_ref().clone())))
    }

    /// What is left of a value, without what was last touched at `cutoff` or earlier. If it is a part, `rest`
    /// gets it.
    pub fn sift(&self, value: &[u8], cutoff: i64, rest: &mut Vec<u8>) -> Result<Sifted, DecodeError> {
        match &self.0 {
            Stamps::Front => match i64::decode(&mut &value[..])? <= cutoff {
                true => Ok(Sifted::Nothing(1)),
                false => Ok(Sifted::All),
            },
            Stamps::Each(key, part) => {
                let mut input = value;
                let count = u32::decode(&mut input)?;
                rest.clear();
                rest.extend_from_slice(&[0; size_of::<u32>()]);
                let mut left = 0u32;
                for _ in 0..count {
                    let start = input;
                    key.iter().try_for_each(|key| key.skip(&mut input))?;
                    let touched = i64::decode(&mut input)?;
                    part.skip(&mut input)?;
                    if touched > cutoff {
                        rest.extend_from_slice(&start[..start.len() - input.len()]);
                        left += 1;
                    }
                }
                rest[..size_of::<u32>()].copy_from_slice(&left.to_le_bytes());
                Ok(match u64::from(count - left) {
                    0 => Sifted::All,
                    gone if left == 0 => Sifted::Nothing(gone),
                    gone => Sifted::Less(gone),
                })
            }
        }
    }
}

const _: () = assert!(STAMP_BYTES == size_of::<i64>());

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::MapEntries;
    use crate::ttl::Stamped;

    fn meta<V: Data>(kind: StateKind) -> StateMeta {
        StateMeta { name: "s".into(), kind, namespace: <()>::schema(), value: V::schema() }
    }

    fn bytes(value: &impl Data) -> Vec<u8> {
        let mut out = Vec::new();
        value.encode(&mut out);
        out
    }

    fn stamped(touched: i64, value: &str) -> Stamped<String> {
        Stamped { touched, value: value.into() }
    }

    #[test]
    fn expired_items_of_a_list_go_and_the_others_keep_their_order() -> Result<(), DecodeError> {
        let Some(sift) = Sift::canonical(&meta::<Vec<Stamped<String>>>(StateKind::List)) else { panic!() };
        let list = vec![stamped(1, "a"), stamped(5, "bc"), stamped(2, ""), stamped(6, "d")];
        let mut rest = Vec::new();
        assert_eq!(sift.sift(&bytes(&list), 0, &mut rest)?, Sifted::All);
        assert_eq!(sift.sift(&bytes(&list), 2, &mut rest)?, Sifted::Less(2));
        assert_eq!(rest, bytes(&vec![stamped(5, "bc"), stamped(6, "d")]));
        assert_eq!(sift.sift(&bytes(&list), 6, &mut rest)?, Sifted::Nothing(4));
        assert!(sift.sift(&bytes(&list)[..9], 2, &mut rest).is_err(), "cut bytes are no list");
        Ok(())
    }

    #[test]
    fn expired_entries_of_a_map_go_with_their_keys() -> Result<(), DecodeError> {
        type Map = MapEntries<u16, Stamped<String>>;
        let Some(sift) = Sift::canonical(&meta::<Map>(StateKind::Map)) else { panic!() };
        let (mut map, mut left, mut rest) = (Map::default(), Map::default(), Vec::new());
        map.insert(7, stamped(1, "a"));
        map.insert(8, stamped(9, "b"));
        left.insert(8, stamped(9, "b"));
        assert_eq!(sift.sift(&bytes(&map), 5, &mut rest)?, Sifted::Less(1));
        assert_eq!(rest, bytes(&left));
        Ok(())
    }

    #[test]
    fn state_without_a_time_to_live_is_not_sifted() {
        assert_eq!(Sift::canonical(&meta::<Vec<u64>>(StateKind::List)), None);
        assert_eq!(Sift::canonical(&meta::<MapEntries<u8, i64>>(StateKind::Map)), None);
        assert_eq!(Sift::canonical(&meta::<i64>(StateKind::Value)), None);
    }
}
