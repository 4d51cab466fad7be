//! The binary form: every type comes back as it went, and no bytes whatever make a reader panic.

mod evolution;
mod recursive;
#[cfg(feature = "serde-adapter")]
mod serde_adapter;
mod types;

use std::collections::{BTreeMap, HashMap};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use proptest::prelude::*;
use stillstream_data::{Compatibility, Data, DecodeError, Key, Schema};
use stillstream_types::{KeyGroups, Timestamp};

#[derive(Clone, PartialEq, Debug, Data)]
#[data(crate = stillstream_data)]
struct Flight {
    scheduled: Timestamp,
    carrier: String,
    dep_delay: Option<i32>,
    r#type: Kind,
}

#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Data)]
#[data(crate = stillstream_data)]
enum Kind {
    Passenger,
    Cargo { tons: u16, hazards: Vec<u8> },
    Other(String, bool),
}

#[derive(Clone, PartialEq, Eq, Debug, Data)]
#[data(crate = stillstream_data)]
struct Pair<A, B = u8>(A, B)
where
    A: Debug;

#[derive(Clone, PartialEq, Eq, Debug, Data)]
#[data(crate = stillstream_data)]
struct Grid<const W: usize> {
    cells: [[u8; W]; 2],
}

#[derive(Clone, PartialEq, Eq, Debug, Data)]
#[data(crate = stillstream_data)]
struct Unit;

fn kinds() -> impl Strategy<Value = Kind> {
    prop_oneof![
        Just(Kind::Passenger),
        (any::<u16>(), any::<Vec<u8>>()).prop_map(|(tons, hazards)| Kind::Cargo { tons, hazards }),
        (any::<String>(), any::<bool>()).prop_map(|(a, b)| Kind::Other(a, b)),
    ]
}

fn flights() -> impl Strategy<Value = Flight> {
    (any::<i64>(), any::<String>(), any::<Option<i32>>(), kinds()).prop_map(
        |(at, carrier, dep_delay, kind)| Flight {
            scheduled: Timestamp::from_millis(at),
            carrier,
            dep_delay,
            r#type: kind,
        },
    )
}

fn bytes_of<T: Data>(value: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    value.encode(&mut bytes);
    bytes
}

/// There and back, by the type and by its schema; skipped as a whole; never read from a part.
fn check<T: Data + PartialEq + Debug>(value: T) {
    let mut bytes = bytes_of(&value);
    let len = bytes.len();
    bytes.push(0xAB);
    let mut input = &bytes[..];
    assert_eq!(T::decode(&mut input).as_ref(), Ok(&value));
    assert_eq!(input, [0xAB]);
    let mut input = &bytes[..];
    assert_eq!(T::decode_evolved(&T::schema(), &mut input).as_ref(), Ok(&value));
    assert_eq!(input, [0xAB]);
    let mut input = &bytes[..];
    assert_eq!(T::schema().skip(&mut input), Ok(()));
    assert_eq!(input, [0xAB]);
    for cut in 0..len.min(200) {
        assert!(T::decode(&mut &bytes[..cut]).is_err(), "{cut} of {len} bytes are no {}", T::schema());
    }
    assert_eq!(Schema::from_bytes(&T::schema().to_bytes()), Ok(T::schema()));
    assert_eq!(T::schema().compatible_with(&T::schema()), Compatibility::AsIs);
}

/// Reads garbage as many types.
fn read_garbage(bytes: &[u8]) {
    fn one<T: Data>(bytes: &[u8]) {
        let by_type = T::decode(&mut &bytes[..]).is_ok();
        let by_schema = T::decode_evolved(&T::schema(), &mut &bytes[..]).is_ok();
        assert_eq!(by_type, by_schema);
        let _ = T::schema().skip(&mut &bytes[..]);
    }
    one::<Flight>(bytes);
    one::<Kind>(bytes);
    one::<Pair<String, Vec<Kind>>>(bytes);
    one::<Grid<3>>(bytes);
    one::<Vec<Unit>>(bytes);
    one::<Vec<()>>(bytes);
    one::<Vec<u128>>(bytes);
    one::<Vec<String>>(bytes);
    one::<Vec<Vec<[u64; 100]>>>(bytes);
    one::<HashMap<u8, Vec<bool>>>(bytes);
    one::<BTreeMap<String, (char, Duration)>>(bytes);
    one::<Box<Option<Option<f64>>>>(bytes);
    one::<Arc<str>>(bytes);
    let _ = Schema::from_bytes(bytes);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_value_comes_back_as_it_went(
        numbers in any::<(u8, i8, u16, i16, u32, i32, u64, i64)>(),
        wide in any::<(u128, i128, bool, char)>(),
        floats in prop::collection::vec(any::<f64>(), 0..20),
        words in any::<Vec<String>>(),
        map in prop::collection::btree_map(any::<String>(), any::<Option<u16>>(), 0..10),
        nested in any::<Vec<Vec<(u8, Option<String>)>>>(),
        nanos in any::<u64>(),
        kinds in prop::collection::vec(kinds(), 0..5),
        flight in flights(),
    ) {
        check(numbers);
        check(wide);
        check(floats);
        check(words.iter().map(|w| Arc::<str>::from(w.as_str())).collect::<Vec<_>>());
        check(Pair(words.clone(), numbers.7));
        check(words);
        check(map.clone().into_iter().collect::<HashMap<_, _>>());
        check(map);
        check(Box::new(nested));
        check((Duration::from_nanos(nanos), Timestamp::from_millis(nanos as i64), ((),)));
        check(Grid { cells: [[numbers.0; 4], [1, 2, 3, 4]] });
        check((Unit, kinds));
        check(flight);
    }

    #[test]
    fn no_bytes_make_a_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        read_garbage(&bytes);
    }

    #[test]
    fn no_damaged_value_makes_a_reader_panic(flight in flights(), at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let mut bytes = bytes_of(&flight);
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        read_garbage(&bytes);
        let mut schema = Flight::schema().to_bytes();
        let at = at % schema.len();
        schema[at] ^= 1 << bit;
        if let Ok(damaged) = Schema::from_bytes(&schema) {
            let _ = Flight::decode_evolved(&damaged, &mut &bytes[..]);
            let _ = damaged.skip(&mut &bytes[..]);
            let _ = Flight::schema().compatible_with(&damaged);
        }
    }

    #[test]
    fn equal_maps_hash_alike(map in prop::collection::btree_map(any::<u32>(), any::<u8>(), 0..20)) {
        let groups = KeyGroups::new(128);
        let forward: HashMap<u32, u8> = map.clone().into_iter().collect();
        let backward: HashMap<u32, u8> = map.into_iter().rev().collect();
        let hash = |map: &HashMap<u32, u8>| {
            let mut hasher = stillstream_data::KeyHasher::new();
            map.hash_key(&mut hasher);
            hasher.finish(groups)
        };
        prop_assert_eq!(hash(&forward), hash(&backward));
    }
}

#[test]
fn a_damaged_length_reserves_no_memory() {
    let mut bytes = u32::MAX.to_le_bytes().to_vec();
    bytes.extend([1; 40]);
    read_garbage(&bytes);
    assert_eq!(Vec::<u64>::decode(&mut &bytes[..]), Err(DecodeError::Short { what: "list of u64" }));
    assert!(Vec::<String>::decode(&mut &bytes[..]).is_err());
}

#[test]
fn the_binary_form_is_the_documented_one() {
    assert_eq!(bytes_of(&258u32), [2, 1, 0, 0]);
    assert_eq!(bytes_of(&"é".to_string()), [2, 0, 0, 0, 0xc3, 0xa9]);
    assert_eq!(bytes_of(&Some(1u8)), [1, 1]);
    assert_eq!(bytes_of(&None::<u8>), [0]);
    assert_eq!(bytes_of(&vec![1u16, 2]), [2, 0, 0, 0, 1, 0, 2, 0]);
    assert_eq!(bytes_of(&[1u16, 2]), [1, 0, 2, 0]);
    assert_eq!(bytes_of(&(true, 'a')), [1, 97, 0, 0, 0]);
    assert_eq!(bytes_of(&BTreeMap::from([(1u8, 2u8), (3, 4)])), [2, 0, 0, 0, 1, 2, 3, 4]);
    assert_eq!(bytes_of(&Timestamp::from_millis(-1)), [255; 8]);
    assert_eq!(bytes_of(&Duration::new(1, 2)), [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0]);
    assert_eq!(bytes_of(&Kind::Other("x".into(), true)), [2, 0, 0, 0, 1, 0, 0, 0, 120, 1]);
    assert_eq!(bytes_of(&(Unit, ())), [0u8; 0]);
    let schema = Schema::Struct {
        name: "S".into(),
        fields: vec![stillstream_data::Field {
            name: "a".into(),
            schema: u8::schema(),
            default: true,
            aliases: Vec::new(),
        }],
    };
    let bytes =
        [&[1, 1, 1, 0, 0, 0, b'S', 1, 0, 0, 0, 1, 0, 0, 0, b'a', 1, 0, 2, 0, 0, 0][..], b"u8"].concat();
    assert_eq!(schema.to_bytes(), bytes);
    // with a set, a former name and a type that holds itself
    #[derive(Clone, Data)]
    #[data(crate = stillstream_data)]
    struct T {
        #[data(alias = "o")]
        s: std::collections::BTreeSet<u8>,
        t: Option<Box<T>>,
    }
    let bytes: [&[u8]; 7] = [
        &[2, 11, 1, 1, 0, 0, 0, b'T', 2, 0, 0, 0],
        &[1, 0, 0, 0, b's', 1, 1, 0, 0, 0, 1, 0, 0, 0, b'o'],
        &[10, 0, 2, 0, 0, 0],
        b"u8",
        &[1, 0, 0, 0, b't', 1, 0, 0, 0, 0],
        &[3],
        &[12, 0, 0, 0, 0],
    ];
    assert_eq!(T::schema().to_bytes(), bytes.concat());
}

#[test]
fn a_schema_reads_as_the_type_is_written() {
    assert_eq!(
        Vec::<Flight>::schema().to_string(),
        "list<struct Flight { scheduled: timestamp, carrier: string, dep_delay: option<i32>, type: enum Kind { \
         Passenger, Cargo { tons: u16, hazards: list<u8> }, Other { 0: string, 1: bool } } }>"
    );
    assert_eq!(
        <(Pair<u8>, Grid<2>, HashMap<u8, ()>, (f32,))>::schema().to_string(),
        "(struct Pair { 0: u8, 1: u8 }, struct Grid { cells: [[u8; 2]; 2] }, map<u8, unit>, (f32,))"
    );
}

#[test]
fn a_schema_of_a_newer_version_or_a_bottomless_one_is_refused() {
    let mut bytes = u8::schema().to_bytes();
    bytes[0] = 3;
    let error = Schema::from_bytes(&bytes).unwrap_err().to_string();
    assert!(error.contains("version is 3"), "{error}");
    let bottomless = [&[1u8][..], &[3; 100_000]].concat();
    assert!(Schema::from_bytes(&bottomless).unwrap_err().to_string().contains("deeper"));
}

#[test]
fn user_keys_hash_by_their_fields() {
    let groups = KeyGroups::new(128);
    // one field alone lands where the field itself does, so that a newtype keeps Flink's groups
    #[derive(Clone, PartialEq, Eq, Debug, Data)]
    #[data(crate = stillstream_data)]
    struct UserId(String);
    assert_eq!(
        UserId("user-1".into()).key_hash(groups).group(),
        "user-1".to_string().key_hash(groups).group()
    );
    assert_ne!(Kind::Passenger.key_hash(groups), Kind::Other(String::new(), false).key_hash(groups));
    assert_ne!(
        (vec![1u8], Vec::<u8>::new()).key_hash(groups),
        (Vec::<u8>::new(), vec![1u8]).key_hash(groups)
    );
}
