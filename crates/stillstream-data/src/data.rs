//! [`Data`] and [`Key`]: what may cross an exchange and live in state, and what records can be keyed by.

use stillstream_types::{KeyGroups, KeyHash};

use crate::container::read_items;
use crate::{DecodeError, KeyHasher, Schema};

/// A type that may cross an exchange and live in state.
///
/// Implemented by `#[derive(Data)]` for users' structs and enums, and here for numbers, strings, options,
/// vectors, maps, tuples and times. The binary form is documented in `docs/formats.md` and stable: integers
/// are fixed-width little-endian, lengths are `u32`.
///
/// ```
/// use stillstream_data::Data;
///
/// #[derive(Clone, PartialEq, Debug, Data)]
/// #[data(crate = stillstream_data)] // not needed where `stillstream` itself is the dependency
/// struct Session { user: String, clicks: u32 }
///
/// let session = Session { user: "a".into(), clicks: 3 };
/// let mut bytes = Vec::new();
/// session.encode(&mut bytes);
/// assert_eq!(Session::decode(&mut &bytes[..]), Ok(session));
/// ```
///
/// A type may hold itself; its values may nest 128 deep. Where it does so by way of another type, the derive has to be told
/// with `#[data(recursive)]`, on one of them:
///
/// ```
/// use stillstream_data::Data;
///
/// #[derive(Clone, PartialEq, Debug, Data)]
/// #[data(crate = stillstream_data)]
/// struct Tree { name: String, children: Vec<Tree> }
/// assert_eq!(Tree::schema().to_string(), "struct Tree { name: string, children: list<Tree> }");
///
/// #[derive(Clone, Data)]
/// #[data(crate = stillstream_data, recursive)]
/// struct Folder { entries: Vec<Entry> }
/// #[derive(Clone, Data)]
/// #[data(crate = stillstream_data)]
/// enum Entry { File(String), Folder(Folder) }
/// ```
/// ```compile_fail,E0391
/// # use stillstream_data::Data;
/// #[derive(Clone, Data)]
/// #[data(crate = stillstream_data)]
/// struct Folder { entries: Vec<Entry> }
/// #[derive(Clone, Data)]
/// #[data(crate = stillstream_data)]
/// enum Entry { File(String), Folder(Folder) }
/// ```
///
/// A type that borrows is refused by the compiler, and so is one that can't go to another thread (`Rc`: use `Arc`):
///
/// ```compile_fail
/// # use stillstream_data::Data;
/// #[derive(Clone, Data)]
/// #[data(crate = stillstream_data)]
/// struct Word<'a> { text: &'a str }
/// ```
/// ```compile_fail,E0277
/// # use stillstream_data::Data;
/// #[derive(Clone, Data)]
/// #[data(crate = stillstream_data)]
/// struct Open { socket: std::rc::Rc<u8> }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` can't cross an exchange or live in state",
    label = "`Data` is not implemented for `{Self}`",
    note = "is it a type of your own? put `#[derive(Clone, Data)]` on it",
    note = "is it of another crate? `chrono`, `uuid`, `bytes` and `rust_decimal` are cargo features of `stillstream`; any `serde` type can be wrapped in `Serde<T>` (cargo feature `serde`)",
    note = "in place of `&str`, `Rc<T>` and `Instant` use `String`, `Arc<T>` and `Timestamp`"
)]
pub trait Data: Clone + Send + Sync + 'static {
    /// How deep the type nests. It is a constant so that a type which holds itself does not compile unless its derive knows
    /// of it: how deep its values nest must be counted, or damaged bytes would overflow the stack.
    #[doc(hidden)]
    const DEPTH: usize = 1;

    /// Whether equal values are written alike, as a key must be. (A type that holds itself is trusted.)
    #[doc(hidden)]
    const ONE_FORM: bool = true;

    /// Whether the type is the form of state with a time to live, and reads [`Schema::Expiring`] itself.
    #[doc(hidden)]
    const EXPIRING: bool = false;

    /// Appends the binary form.
    fn encode(&self, out: &mut Vec<u8>);

    /// Reads one value from the front of `input` and moves `input` past it. Damaged bytes give an error: an
    /// implementation never panics, and never reserves more memory than the input could fill.
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError>;

    /// The description of the type, stored in every snapshot.
    fn schema() -> Schema;

    /// Reads one value that was written with an older form of the type: fields that the type no longer has
    /// are passed over, fields that it did not have then get their default. Only called for a `stored` schema
    /// that [`Schema::compatible_with`] allows.
    fn decode_evolved(stored: &Schema, input: &mut &[u8]) -> Result<Self, DecodeError> {
        let _ = stored;
        Self::decode(input)
    }

    /// Feeds the value to the key hasher. Equal values must feed the same. The default hashes the binary
    /// form.
    fn hash_key(&self, hasher: &mut KeyHasher) {
        let mut bytes = Vec::new();
        self.encode(&mut bytes);
        hasher.bytes(&bytes);
    }

    /// Feeds a list of values to the key hasher: the length, then the items.
    #[doc(hidden)]
    fn hash_slice(items: &[Self], hasher: &mut KeyHasher) {
        hasher.int(items.len() as i32);
        items.iter().for_each(|item| item.hash_key(hasher));
    }

    /// Asks the processor for the memory that comparing the value will read beside the value itself.
    #[doc(hidden)]
    #[inline(always)]
    fn prefetch(&self) {}

    /// Appends the binary forms of all items, one after another. Types of fixed size copy memory instead.
    fn encode_slice(items: &[Self], out: &mut Vec<u8>) {
        items.iter().for_each(|item| item.encode(out));
    }

    /// Reads `n` values.
    fn decode_vec(n: usize, input: &mut &[u8]) -> Result<Vec<Self>, DecodeError> {
        read_items(n, input, Self::decode)
    }
}

/// Bytes in front of a value of state with a time to live.
#[doc(hidden)]
pub const STAMP_BYTES: usize = 8;

/// [`Data::decode_evolved`] for what lies in state as a whole, as an item of a list or as a value of a map:
/// the stored form may have a time to live that the program's has not.
#[doc(hidden)]
pub fn decode_stored<V: Data>(stored: &Schema, input: &mut &[u8]) -> Result<V, DecodeError> {
    match stored {
        Schema::Expiring(inner) if !V::EXPIRING => {
            i64::decode(input)?;
            V::decode_evolved(inner, input)
        }
        stored => V::decode_evolved(stored, input),
    }
}

/// A type that records can be keyed by: data with equality. Implemented for every such type.
///
/// Which subtask has a key is decided by [`hash_key`](Data::hash_key), which feeds the binary form unless the
/// type says otherwise; which entry of state is the key's is decided by `Eq`, and in RocksDB and in snapshots
/// by the binary form. So **two keys must be equal exactly when their binary forms are**. That holds for
/// numbers, strings and all types whose `Eq` is derived. An `Eq` of one's own that takes more together (0.0
/// and -0.0, `"A"` and `"a"`) breaks it: equal keys have two subtasks, and each has a part of the state. Make
/// one form of them before the key is taken:
///
/// ```
/// use stillstream_data::Data;
///
/// /// A price; the two zeros are one key, as its fields are compared and written in one form only.
/// #[derive(Clone, Copy, PartialEq, Eq, Debug, Data)]
/// #[data(crate = stillstream_data)]
/// struct Price { bits: u64 }
///
/// impl Price {
///     fn of(price: f64) -> Self {
///         Self { bits: if price == 0.0 { 0 } else { price.to_bits() } }
///     }
/// }
/// assert_eq!(Price::of(0.0), Price::of(-0.0));
/// ```
///
/// A `HashMap` or a `HashSet` is no key either, though it has an `Eq`: it is written in another order each time. Nor is a `Decimal`
/// (1.0 and 1.00) or a `DateTime<FixedOffset>`. Where one is part of a key the program does not compile:
///
/// ```compile_fail,E0080
/// use std::collections::HashSet;
/// use stillstream_data::Key;
/// use stillstream_types::KeyGroups;
/// HashSet::from([1u8, 2]).key_hash(KeyGroups::new(128));
/// ```
///
/// A float is no key: not-a-number is unequal to itself, and the two zeros are equal and have different forms. Take a whole number
/// of the smallest unit, or `to_bits()` where you know which zero it is.
#[diagnostic::on_unimplemented(
    message = "records can't be keyed by `{Self}`",
    label = "`Key` needs `Data` and `Eq`, and `{Self}` lacks one of them",
    note = "is it a type of your own? put `#[derive(Clone, PartialEq, Eq, Data)]` on it",
    note = "`f32` and `f64` have no `Eq`: not-a-number is unequal to itself, so its state would never be found again; take a whole number of the smallest unit (cents), or `to_bits()`"
)]
pub trait Key: Data + Eq {
    /// The key's group and hash, computed once per record.
    #[inline(always)]
    fn key_hash(&self, groups: KeyGroups) -> KeyHash {
        const {
            assert!(
                Self::ONE_FORM,
                "a key is found by its bytes, and a `HashMap`, a `HashSet`, a `Decimal` or a time with an offset can be equal to \
                 another one that has other bytes: key by a `BTreeMap`, a `BTreeSet`, a whole number or a time in UTC"
            );
        }
        let mut hasher = KeyHasher::new();
        self.hash_key(&mut hasher);
        hasher.finish(groups)
    }
}

#[diagnostic::do_not_recommend]
impl<T: Data + Eq> Key for T {}
