//! Keys are hashed by their schemas as by their types.

use std::time::Duration;

use stillstream_data::{Data, Key};
use stillstream_types::{KeyGroups, Timestamp};

#[derive(Clone, PartialEq, Eq, Debug, Data)]
#[data(crate = stillstream_data)]
enum Place {
    Nowhere,
    Airport(String),
    Point { x: i16, y: Option<u128> },
}

#[derive(Clone, PartialEq, Eq, Debug, Data)]
#[data(crate = stillstream_data)]
struct Nothing;

fn same<K: Key>(key: K) {
    let groups = KeyGroups::new(128);
    let mut bytes = Vec::new();
    key.encode(&mut bytes);
    assert_eq!(K::schema().hash_of_key(&bytes, groups), Ok(key.key_hash(groups)), "{}", K::schema());
    if !bytes.is_empty() {
        assert!(K::schema().hash_of_key(&bytes[..bytes.len() - 1], groups).is_err(), "torn bytes");
    }
}

#[test]
fn a_key_has_the_same_hash_by_its_schema_as_by_its_type() {
    same(());
    same(true);
    same('é');
    same((1u8, 2u16, 3u32, u64::MAX, u128::MAX));
    same((-1i8, -2i16, -3i32, i64::MIN, i128::MIN));
    same(String::from("flïghts"));
    same((Timestamp::from_millis(-7), Duration::new(3, 999)));
    same(vec![1u8, 200, 3]);
    same([4u8; 5]);
    same(vec![String::from("a"), String::new()]);
    same([Some(1u16), None]);
    same(Box::new(Some(Some(5i64))));
    same(Nothing);
    for place in [Place::Nowhere, Place::Airport("JFK".into()), Place::Point { x: -1, y: Some(9) }] {
        same((place.clone(), vec![place]));
    }
}

#[test]
fn a_map_in_a_key_is_refused_since_its_schema_does_not_tell_its_hash() {
    type Map = std::collections::BTreeMap<u8, u8>;
    let mut bytes = Vec::new();
    Map::from([(1, 2)]).encode(&mut bytes);
    let error = Map::schema().hash_of_key(&bytes, KeyGroups::new(8)).unwrap_err().to_string();
    assert!(error.contains("map<u8, u8>"), "{error}");
}
