//! Types that hold themselves.

use super::*;

#[derive(Clone, PartialEq, Eq, Debug, Data)]
#[data(crate = stillstream_data)]
struct Tree {
    name: String,
    children: Vec<Tree>,
}

#[derive(Clone, PartialEq, Debug, Data)]
#[data(crate = stillstream_data)]
enum Expr {
    Number(i64),
    Sum(Box<Expr>, Box<Self>),
    Call { name: String, of: Vec<(String, Expr)> },
}

#[derive(Clone, PartialEq, Debug, Data)]
#[data(crate = stillstream_data, recursive)]
struct Folder {
    entries: BTreeMap<String, Entry>,
}

#[derive(Clone, PartialEq, Debug, Data)]
#[data(crate = stillstream_data)]
enum Entry {
    File(u64),
    Folder(Folder),
    Tagged(Tree, Option<Box<Folder>>),
}

#[derive(Clone, PartialEq, Debug, Data)]
#[data(crate = stillstream_data)]
struct Chain<T> {
    value: T,
    next: Option<Box<Chain<T>>>,
}

fn leaf(name: &str) -> Tree {
    Tree { name: name.into(), children: vec![] }
}

fn chain(n: usize) -> Chain<u8> {
    (1..n).fold(Chain { value: 0, next: None }, |next, at| Chain {
        value: at as u8,
        next: Some(Box::new(next)),
    })
}

#[test]
fn a_type_that_holds_itself_comes_back_as_it_went() {
    let tree = Tree {
        name: "a".into(),
        children: vec![leaf("b"), Tree { name: "c".into(), children: vec![leaf("d")] }],
    };
    check((tree.clone(), 7u8));
    check(Expr::Call {
        name: "f".into(),
        of: vec![("x".into(), Expr::Sum(Box::new(Expr::Number(1)), Box::new(Expr::Number(2))))],
    });
    let inner = Folder { entries: [("tree".to_string(), Entry::Tagged(tree.clone(), None))].into() };
    let entries = [
        ("file".to_string(), Entry::File(3)),
        ("folder".into(), Entry::Folder(inner.clone())),
        ("both".into(), Entry::Tagged(leaf("e"), Some(Box::new(inner)))),
    ];
    check(Folder { entries: entries.into() });
    check(chain(40));
    let groups = KeyGroups::new(128);
    assert_eq!(Tree::schema().hash_of_key(&bytes_of(&tree), groups), Ok(tree.key_hash(groups)));
}

#[test]
fn its_schema_ends() {
    assert_eq!(Tree::schema().to_string(), "struct Tree { name: string, children: list<Tree> }");
    assert_eq!(
        Folder::schema().to_string(),
        "struct Folder { entries: map<string, enum Entry { File { 0: u64 }, Folder { 0: Folder }, \
         Tagged { 0: struct Tree { name: string, children: list<Tree> }, 1: option<Folder> } }> }"
    );
    // it is the same wherever it stands
    let Schema::Tuple(parts) = <(Folder, Tree)>::schema() else { panic!() };
    assert_eq!(parts, [Folder::schema(), Tree::schema()]);
}

#[test]
fn a_value_that_nests_too_deep_is_neither_written_nor_read() {
    check(chain(128));
    let error = std::panic::catch_unwind(|| bytes_of(&chain(129))).unwrap_err();
    let text = error.downcast_ref::<String>().unwrap();
    assert!(text.contains("Chain<u8>` nests deeper than 128 values"), "{text}");
    // the count is right again
    check(chain(128));
    let deep = [0u8, 1].repeat(1_000_000);
    let deeper =
        |found: Result<(), DecodeError>| assert!(found.unwrap_err().to_string().contains("deeper than 128"));
    deeper(Chain::<u8>::decode(&mut &deep[..]).map(drop));
    deeper(Chain::<u8>::decode_evolved(&Chain::<u8>::schema(), &mut &deep[..]).map(drop));
    deeper(Chain::<u8>::schema().skip(&mut &deep[..]));
    check(chain(128));
}

#[test]
fn a_schema_that_refers_to_nothing_is_refused() {
    for wrong in [&[2u8, 12, 0, 0, 0, 0][..], &[2, 11, 12, 0, 0, 0, 0], &[2, 4, 11, 3, 12, 0, 0, 0, 0]] {
        assert!(Schema::from_bytes(wrong).is_err(), "{wrong:?}");
    }
    let mut bytes = Tree::schema().to_bytes();
    assert_eq!(bytes[0], 2);
    let at = bytes.len() - 4;
    bytes[at] = 1;
    assert!(Schema::from_bytes(&bytes).unwrap_err().to_string().contains("refers to type 1"));
}

mod later {
    use super::*;

    /// `Tree` with another name and one field more.
    #[derive(Clone, PartialEq, Debug, Data)]
    #[data(crate = stillstream_data)]
    pub struct Node {
        #[data(alias = "children")]
        pub below: Vec<Node>,
        pub name: Option<String>,
        pub weight: u32,
    }

    /// `Tree` that no longer holds itself.
    #[derive(Clone, PartialEq, Debug, Data)]
    #[data(crate = stillstream_data)]
    pub struct Flat {
        pub name: String,
    }

    #[derive(Clone, PartialEq, Debug, Data)]
    #[data(crate = stillstream_data, recursive)]
    pub struct Folder {
        pub entries: BTreeMap<String, Entry>,
        pub owner: String,
    }

    #[derive(Clone, PartialEq, Debug, Data)]
    #[data(crate = stillstream_data)]
    pub enum Entry {
        Folder(Folder),
        File(u128),
        Tagged(Flat, Option<Box<Folder>>),
    }
}

#[test]
fn a_type_that_holds_itself_evolves_at_every_depth() {
    let tree = Tree { name: "a".into(), children: vec![leaf("b")] };
    let stored = Tree::schema();
    assert_eq!(later::Node::schema().compatible_with(&stored), Compatibility::AfterMigration);
    assert_eq!(later::Node::schema().dropped_fields(&stored), [""; 0]);
    let node = |name: &str, below| later::Node { below, name: Some(name.into()), weight: 0 };
    let read = later::Node::decode_evolved(&stored, &mut &bytes_of(&tree)[..]);
    assert_eq!(read, Ok(node("a", vec![node("b", vec![])])));

    assert_eq!(later::Flat::schema().compatible_with(&stored), Compatibility::AfterMigration);
    assert_eq!(later::Flat::schema().dropped_fields(&stored), ["field `children` (list<itself>) of `Flat`"]);
    let read = later::Flat::decode_evolved(&stored, &mut &bytes_of(&tree)[..]);
    assert_eq!(read, Ok(later::Flat { name: "a".into() }));

    let inner = Folder { entries: [("t".to_string(), Entry::Tagged(tree, None))].into() };
    let outer = Folder {
        entries: [
            ("f".to_string(), Entry::Folder(inner.clone())),
            ("g".to_string(), Entry::Tagged(leaf("x"), Some(Box::new(inner)))),
            ("h".to_string(), Entry::File(9)),
        ]
        .into(),
    };
    let stored = Folder::schema();
    assert_eq!(later::Folder::schema().compatible_with(&stored), Compatibility::AfterMigration);
    let bytes = bytes_of(&outer);
    let mut input = &bytes[..];
    let read = later::Folder::decode_evolved(&stored, &mut input).unwrap();
    assert!(input.is_empty());
    let flat = |name: &str| later::Flat { name: name.into() };
    let folder = |entries: &[(&str, later::Entry)]| later::Folder {
        entries: entries.iter().map(|(name, entry)| (name.to_string(), entry.clone())).collect(),
        owner: String::new(),
    };
    let inner = folder(&[("t", later::Entry::Tagged(flat("a"), None))]);
    let expected = folder(&[
        ("f", later::Entry::Folder(inner.clone())),
        ("g", later::Entry::Tagged(flat("x"), Some(Box::new(inner)))),
        ("h", later::Entry::File(9)),
    ]);
    assert_eq!(read, expected);
}
