//! What a later release of a program may change in its types.

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
    renamed: {
        #[data(rename = "Outer", alias = "Older")]
        pub struct Whole {
            pub a: u32,
            #[data(rename = "gone")] pub former: Vec<(String, Option<u8>)>,
            pub list: Vec<Part>,
            #[data(alias = "shape", alias = "e")] pub form: Form,
        }
        pub struct Part { #[data(alias = "x")] pub y: u8 }
        pub enum Form { Dot, #[data(alias = "Circle")] Disc { #[data(alias = "r")] radius: u32 }, Line(u8, u8) }
    }
    renamed_without_alias: {
        pub struct Inner { pub y: u8 }
    }
    wider: {
        pub struct Inner { pub x: Option<i64> }
    }
    with_defaults: {
        pub struct Inner {
            #[data(skip)] pub cache: Option<u64>,
            pub x: u8,
            #[data(default = super::seven)] pub y: NoDefault,
            #[data(skip, default = super::seven)] pub z: NoDefault,
        }
        pub enum NoDefault { Number(u8) }
    }
}

fn seven() -> with_defaults::NoDefault {
    with_defaults::NoDefault::Number(7)
}

#[test]
fn names_of_types_do_not_count_and_renamed_fields_and_variants_keep_their_values() {
    let stored = old::Outer::schema();
    // nothing moved, so nothing is read by the schema at all
    assert_eq!(renamed::Whole::schema().compatible_with(&stored), Compatibility::AsIs);
    assert_eq!(renamed::Whole::schema().dropped_fields(&stored), [""; 0]);
    let value = old::Outer {
        a: 1,
        gone: vec![("x".into(), None)],
        list: vec![old::Inner { x: 2 }],
        e: old::Shape::Circle { r: 3 },
    };
    let bytes = bytes_of(&value);
    let read = renamed::Whole::decode(&mut &bytes[..]).unwrap();
    assert_eq!(renamed::Whole::decode_evolved(&stored, &mut &bytes[..]), Ok(read.clone()));
    assert_eq!((read.former.len(), read.list[0].y, read.form), (1, 2, renamed::Form::Disc { radius: 3 }));
    // a plan file has the former names
    let schema = renamed::Whole::schema();
    assert_eq!(Schema::from_bytes(&schema.to_bytes()), Ok(schema));
}

#[test]
fn a_field_that_was_renamed_without_an_alias_is_named_with_what_to_do() {
    let (new, stored) = (renamed_without_alias::Inner::schema(), old::Inner::schema());
    assert_eq!(new.compatible_with(&stored), Compatibility::AfterMigration);
    assert_eq!(
        new.dropped_fields(&stored),
        ["field `x` (u8) of `Inner`; if it is `y` now, put #[data(alias = \"x\")] on that field"]
    );
    let dropped = new::Outer::schema().dropped_fields(&old::Outer::schema());
    assert_eq!(dropped, ["field `gone` (list<(string, option<u8>)>) of `Outer`"]);
    assert_eq!(new::Outer::schema().dropped_fields(&u8::schema()), [""; 0]);
}

#[test]
fn of_two_stored_names_the_present_one_counts() {
    #[derive(Clone, PartialEq, Debug, Data)]
    #[data(crate = stillstream_data)]
    struct Both {
        #[data(alias = "c", alias = "a")]
        b: u8,
    }
    for (names, taken, lost) in [(["a", "b"], 2, "a"), (["b", "a"], 1, "a"), (["a", "c"], 2, "a")] {
        let field = |name: &str| stillstream_data::Field {
            name: name.into(),
            schema: u8::schema(),
            default: false,
            aliases: vec![],
        };
        let stored = Schema::Struct { name: "Both".into(), fields: names.map(field).into() };
        assert_eq!(Both::decode_evolved(&stored, &mut &[1u8, 2][..]), Ok(Both { b: taken }));
        let dropped = Both::schema().dropped_fields(&stored);
        assert_eq!(dropped, [format!("field `{lost}` (u8) of `Both`")]);
    }
}

#[test]
fn numbers_become_wider_and_a_value_becomes_an_option() {
    fn becomes<A: Data, B: Data + PartialEq + Debug>(from: A, to: B) {
        let stored = A::schema();
        assert_eq!(
            B::schema().compatible_with(&stored),
            Compatibility::AfterMigration,
            "{stored} to {}",
            B::schema()
        );
        let bytes = bytes_of(&from);
        let mut input = &bytes[..];
        assert_eq!(B::decode_evolved(&stored, &mut input), Ok(to));
        assert!(input.is_empty());
    }
    becomes(255u8, 255u16);
    becomes(u32::MAX, i64::from(u32::MAX));
    becomes(-1i8, -1i128);
    becomes(u64::MAX, u128::from(u64::MAX));
    becomes(7u16, 7usize);
    becomes(-7i32, -7isize);
    becomes(1.5f32, 1.5f64);
    becomes("x".to_string(), Some("x".to_string()));
    becomes(vec![1u8, 2], vec![Some(1u32), Some(2)]);
    becomes([1u8, 2], [1i16, 2]);
    becomes((1u8, 2.0f32), (1u64, Some(2.0f64)));
    becomes(BTreeMap::from([(1u8, 2u8)]), HashMap::from([(1u8, 2i32)]));
    becomes(Ok::<u8, u8>(1), Ok::<u16, Option<u8>>(1));
    becomes(old::Inner { x: 9 }, wider::Inner { x: Some(9) });
    becomes(std::num::NonZero::new(3u8).unwrap(), std::num::NonZero::new(3u64).unwrap());

    fn never<A: Data, B: Data>() {
        let found = B::schema().compatible_with(&A::schema());
        assert!(matches!(found, Compatibility::Incompatible(_)), "{} to {}", A::schema(), B::schema());
    }
    never::<u16, u8>();
    never::<i8, u64>();
    never::<u32, i32>();
    never::<u8, f64>();
    never::<f64, f32>();
    never::<Option<u8>, u8>();
    never::<BTreeMap<u8, ()>, BTreeMap<u16, ()>>();
    never::<u8, std::num::NonZero<u8>>();
}

#[test]
fn fields_have_defaults_of_their_own_and_some_are_never_written() {
    use with_defaults::{Inner, NoDefault};
    assert_eq!(Inner::schema().to_string(), "struct Inner { x: u8, y: enum NoDefault { Number { 0: u8 } } }");
    let value = Inner { cache: Some(1), x: 2, y: NoDefault::Number(3), z: NoDefault::Number(4) };
    let bytes = bytes_of(&value);
    let read = Inner { cache: None, z: seven(), ..value };
    assert_eq!(Inner::decode(&mut &bytes[..]), Ok(read));
    let stored = old::Inner::schema();
    assert_eq!(Inner::schema().compatible_with(&stored), Compatibility::AfterMigration);
    let read = Inner { cache: None, x: 9, y: seven(), z: seven() };
    assert_eq!(Inner::decode_evolved(&stored, &mut &[9u8][..]), Ok(read));
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
        Compatibility::Incompatible(
            "variant `Line` of `Shape` was dropped; if it has another name now, put #[data(alias = \"Line\")] on it".into()
        )
    );
    assert_eq!(with_more_variants::Shape::schema().compatible_with(&stored), Compatibility::AsIs);
}
