//! The binary form: every type comes back as it went, and no bytes whatever make a reader panic.

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
    fn equal_keys_hash_alike(map in prop::collection::btree_map(any::<u32>(), any::<u8>(), 0..20)) {
        let groups = KeyGroups::new(128);
        let forward: HashMap<u32, u8> = map.clone().into_iter().collect();
        let backward: HashMap<u32, u8> = map.into_iter().rev().collect();
        prop_assert_eq!(forward.key_hash(groups), backward.key_hash(groups));
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
        fields: vec![stillstream_data::Field { name: "a".into(), schema: u8::schema(), default: true }],
    };
    let bytes =
        [&[1, 1, 1, 0, 0, 0, b'S', 1, 0, 0, 0, 1, 0, 0, 0, b'a', 1, 0, 2, 0, 0, 0][..], b"u8"].concat();
    assert_eq!(schema.to_bytes(), bytes);
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
    bytes[0] = 2;
    let error = Schema::from_bytes(&bytes).unwrap_err().to_string();
    assert!(error.contains("version is 2"), "{error}");
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

mod evolution {
    use super::*;

    /// Two releases of one program.
    macro_rules! releases {
        ($($release:ident: { $($item:item)* })*) => {$(
            mod $release {
                use stillstream_data::Data;
                $(#[derive(Clone, PartialEq, Debug, Data)] #[data(crate = stillstream_data)] $item)*
            }
        )*};
    }

    releases! {
        old: {
            pub struct Outer { pub a: u32, pub gone: Vec<(String, Option<u8>)>, pub list: Vec<Inner>, pub e: Shape }
            pub struct Inner { pub x: u8 }
            pub enum Shape { Dot, Circle { r: u32 }, Line(u8, u8) }
        }
        new: {
            pub struct Outer { pub list: Vec<Inner>, pub e: Shape, pub b: String, pub a: u32 }
            pub struct Inner { pub x: u8, pub y: Option<u64> }
            pub enum Shape { New, Line(u8, u8), Circle { name: String, r: u32 }, Dot }
        }
        without_a_variant: {
            pub enum Shape { Dot, Circle { r: u32 } }
        }
        with_more_variants: {
            pub enum Shape { Dot, Circle { r: u32 }, Line(u8, u8), Square(u8) }
        }
    }

    #[test]
    fn fields_and_variants_move_come_and_go_at_any_depth() {
        let stored = old::Outer::schema();
        assert_eq!(new::Outer::schema().compatible_with(&stored), Compatibility::AfterMigration);
        for e in [old::Shape::Dot, old::Shape::Circle { r: 9 }, old::Shape::Line(1, 2)] {
            let value = old::Outer {
                a: 7,
                gone: vec![("x".into(), None), ("y".into(), Some(1))],
                list: vec![old::Inner { x: 1 }, old::Inner { x: 2 }],
                e: e.clone(),
            };
            let bytes = bytes_of(&value);
            let mut input = &bytes[..];
            let read = new::Outer::decode_evolved(&stored, &mut input);
            let expected = new::Outer {
                list: vec![new::Inner { x: 1, y: None }, new::Inner { x: 2, y: None }],
                e: match e {
                    old::Shape::Dot => new::Shape::Dot,
                    old::Shape::Circle { r } => new::Shape::Circle { name: String::new(), r },
                    old::Shape::Line(a, b) => new::Shape::Line(a, b),
                },
                b: String::new(),
                a: 7,
            };
            assert_eq!(read, Ok(expected));
            assert!(input.is_empty());
        }
    }

    #[test]
    fn a_dropped_variant_is_refused_and_one_at_the_end_costs_nothing() {
        let stored = old::Shape::schema();
        assert_eq!(
            without_a_variant::Shape::schema().compatible_with(&stored),
            Compatibility::Incompatible("variant `Line` of `Shape` was dropped".into())
        );
        assert_eq!(with_more_variants::Shape::schema().compatible_with(&stored), Compatibility::AsIs);
    }
}

#[cfg(feature = "serde-adapter")]
mod serde_adapter {
    use super::*;
    use stillstream_data::Serde;

    #[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
    enum Tree {
        Leaf(i64),
        Node(Vec<Tree>),
    }

    #[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
    struct Skips {
        a: u32,
        #[serde(skip_serializing_if = "Option::is_none", default)]
        b: Option<u32>,
        c: String,
    }

    #[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
    #[serde(tag = "type")]
    enum Tagged {
        Unit,
        Fields { x: u32, at: std::net::IpAddr },
        New(Skips),
    }

    #[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
    #[serde(tag = "t", content = "c")]
    enum Adjacent {
        Unit,
        Pair(i8, char),
    }

    #[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
    #[serde(untagged)]
    enum Untagged {
        Number(u32),
        Ratio(f64),
        Text(String),
        List(Vec<Untagged>),
        Tree(Tree),
    }

    #[derive(Clone, PartialEq, Debug, Default, serde::Serialize, serde::Deserialize)]
    struct Flat {
        id: u64,
        #[serde(flatten)]
        more: BTreeMap<String, serde_json::Value>,
    }

    #[derive(Clone, PartialEq, Debug, serde::Serialize, serde::Deserialize)]
    enum Variants {
        Unit,
        New(Option<Option<()>>),
        Tuple(u8, i64),
        Struct { wide: u128, minus: i128, unit: () },
    }

    #[test]
    fn a_serde_type_comes_back_as_it_went() {
        let tree = Tree::Node(vec![Tree::Leaf(1), Tree::Node(vec![Tree::Leaf(-5), Tree::Node(vec![])])]);
        check((Serde(tree), 7u8));
        assert!(Serde::<Tree>::schema().to_string().starts_with("opaque serde-2:"));
    }

    #[test]
    fn the_self_describing_form_is_the_documented_one() {
        let value =
            Serde((Skips { a: 300, b: None, c: "x".into() }, Some(-1i8), vec![Adjacent::Unit], 0.5f32));
        let expected: Vec<u8> = [
            &[14, 4, 0, 0, 0][..], // a list of four
            &[15, 2, 0, 0, 0, 12, 1, b'a', 5, 0xac, 2, 12, 1, b'c', 12, 1, b'x'],
            &[2, 6, 1],
            &[14, 1, 0, 0, 0, 15, 1, 0, 0, 0, 12, 1, b't', 12, 4],
            b"Unit",
            &[9, 0, 0, 0, 0x3f],
        ]
        .concat();
        // the length counts what is behind it
        let expected = [&(expected.len() as u32).to_le_bytes()[..], &expected].concat();
        assert_eq!(bytes_of(&value), expected);
    }

    #[test]
    fn types_that_look_at_what_was_written_come_back_as_they_went() {
        let json =
            serde_json::json!({"a": [1, -2, 2.5, null, true, "x"], "b": {"c": u64::MAX, "d": i64::MIN}});
        check(Serde(json.clone()));
        for b in [None, Some(3)] {
            check((Serde(Skips { a: 1, b, c: "x".into() }), 9u8));
        }
        check(Serde(Tagged::Unit));
        check(Serde(Tagged::Fields { x: 1, at: "10.0.0.1".parse().unwrap() }));
        check(Serde(Tagged::New(Skips { a: 1, b: None, c: String::new() })));
        check(Serde(vec![Adjacent::Unit, Adjacent::Pair(-1, 'ä')]));
        check(Serde(Untagged::List(vec![
            Untagged::Number(7),
            Untagged::Ratio(f64::INFINITY),
            Untagged::Text("b".into()),
            Untagged::Tree(Tree::Leaf(4)),
        ])));
        check(Serde(Flat { id: 4, more: [("json".to_string(), json)].into() }));
    }

    #[test]
    fn every_kind_of_value_that_serde_has_comes_back_as_it_went() {
        check(Serde(Variants::Unit));
        [None, Some(None), Some(Some(()))].into_iter().for_each(|option| check(Serde(Variants::New(option))));
        check(Serde(Variants::Tuple(255, i64::MIN)));
        check(Serde(Variants::Struct { wide: u128::MAX, minus: i128::MIN, unit: () }));
        check(Serde((f32::MIN_POSITIVE, -0.0f64, f64::NEG_INFINITY, '\u{10ffff}', u64::MAX)));
        check(Serde(BTreeMap::from([((1u8, "a".to_string()), vec![Some(true), None])])));
        check(Serde(std::time::Duration::new(u64::MAX, 999_999_999)));
        assert!(bytes_of(&Serde(f32::NAN)).len() < 16);
    }

    #[test]
    fn damaged_serde_bytes_are_refused() {
        let whole = bytes_of(&Serde(serde_json::json!({"a": [1, {"b": null}]})));
        let read = |bytes: &[u8]| Serde::<serde_json::Value>::decode(&mut &bytes[..]);
        let mut longer = whole.clone();
        longer[0] += 1;
        longer.push(0);
        assert!(read(&longer).unwrap_err().to_string().contains("left over"));
        for at in 0..whole.len() {
            assert!(read(&whole[..at]).is_err());
            for byte in [0, 0x7f, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] = byte;
                let _ = read(&damaged); // any answer but a panic
            }
        }
        // lists within lists, deeper than a stack would bear
        let deep: Vec<u8> = [14, 1, 0, 0, 0].repeat(1_000_000);
        let framed = [&(deep.len() as u32).to_le_bytes()[..], &deep].concat();
        assert!(read(&framed).unwrap_err().to_string().contains("deeper than 256"));
    }

    #[test]
    fn a_value_that_is_too_deep_to_be_read_is_not_written() {
        let deep = |n| (0..n).fold(Tree::Leaf(0), |tree, _| Tree::Node(vec![tree]));
        check(Serde(deep(127)));
        let error = std::panic::catch_unwind(|| bytes_of(&Serde(deep(128)))).unwrap_err();
        assert!(error.downcast_ref::<String>().unwrap().contains("deeper than 256"));
    }

    #[test]
    fn a_value_that_refuses_to_be_written_names_its_type() {
        #[derive(Clone, serde::Deserialize)]
        struct Never;
        impl serde::Serialize for Never {
            fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
                Err(serde::ser::Error::custom("not today"))
            }
        }
        let error = std::panic::catch_unwind(|| bytes_of(&Serde(Never))).unwrap_err();
        let text = error.downcast_ref::<String>().unwrap();
        assert!(text.contains("Never` cannot be written") && text.contains("not today"), "{text}");
    }

    #[cfg(debug_assertions)]
    #[test]
    fn a_value_that_cannot_be_read_back_is_found_when_it_is_written() {
        #[derive(Clone, serde::Serialize, serde::Deserialize)]
        struct Other {
            #[serde(rename(serialize = "here", deserialize = "there"))]
            field: u8,
        }
        let error = std::panic::catch_unwind(|| bytes_of(&Serde(Other { field: 1 }))).unwrap_err();
        let text = error.downcast_ref::<String>().unwrap();
        assert!(
            text.contains("Other` that was written cannot be read back") && text.contains("`there`"),
            "{text}"
        );
    }

    fn first_form<T: serde::Serialize>(value: &T) -> (Schema, Vec<u8>) {
        let bytes = postcard::to_stdvec(value).unwrap();
        let framed = [&(bytes.len() as u32).to_le_bytes()[..], &bytes].concat();
        (Schema::Opaque(format!("serde:{}", std::any::type_name::<T>())), framed)
    }

    #[test]
    fn values_of_the_first_form_are_read_where_that_is_possible_and_refused_by_name_where_not() {
        let tree = Tree::Node(vec![Tree::Leaf(-5)]);
        let (stored, bytes) = first_form(&tree);
        assert_eq!(Serde::<Tree>::schema().compatible_with(&stored), Compatibility::AfterMigration);
        let input = &mut &[&bytes[..], &[9]].concat()[..];
        assert_eq!(Serde::<Tree>::decode_evolved(&stored, input), Ok(Serde(tree)));
        assert_eq!(input, &[9]);

        let (stored, bytes) = first_form(&Tagged::Fields { x: 1, at: "::1".parse().unwrap() });
        let error = Serde::<Tagged>::decode_evolved(&stored, &mut &bytes[..]).unwrap_err().to_string();
        for part in ["Tagged", "stillstream 0.1", "--start-fresh"] {
            assert!(error.contains(part), "{error}");
        }
        assert!(matches!(Serde::<Skips>::schema().compatible_with(&stored), Compatibility::Incompatible(_)));
    }

    #[test]
    fn a_serde_value_in_a_struct_or_list_is_migrated_too() {
        let stored = Schema::List(Box::new(first_form(&1u8).0));
        let bytes = [&2u32.to_le_bytes()[..], &first_form(&7u8).1, &first_form(&8u8).1].concat();
        assert_eq!(Vec::<Serde<u8>>::schema().compatible_with(&stored), Compatibility::AfterMigration);
        let read = Vec::<Serde<u8>>::decode_evolved(&stored, &mut &bytes[..]);
        assert_eq!(read, Ok(vec![Serde(7), Serde(8)]));
    }
}
