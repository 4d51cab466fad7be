//! The `Serde` adapter.

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
    let value = Serde((Skips { a: 300, b: None, c: "x".into() }, Some(-1i8), vec![Adjacent::Unit], 0.5f32));
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
    let json = serde_json::json!({"a": [1, -2, 2.5, null, true, "x"], "b": {"c": u64::MAX, "d": i64::MIN}});
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
