//! What is migrated, and what is refused with which words.

use std::sync::Arc;

use stillstream_types::{ErrorKind, KeyGroup, KeyGroupRange, KeyGroups, KeyedStateHandle, StreamHandle};

use super::{STORE, at, groups, made, must, part, refused, save, whole};
use crate::{BackendFactory, KeyedBackend, KeyedValues, MemorySnapshotStore, NamespacedValues, StateError};

/// The versions of one user type: each module is another release of the same program.
mod versions {
    macro_rules! version {
        ($version:ident { $($field:ident: $ty:ty),* }) => {
            pub mod $version {
                #[derive(Clone, PartialEq, Debug, crate::Data)]
                #[data(crate = crate)]
                pub struct Account { $(pub $field: $ty),* }
            }
        };
    }
    version!(v1 { id: u64, n: u32 });
    version!(v2 { id: u64, note: Option<String>, n: u32 });
    version!(v3 { n: u32 });
    version!(v4 { id: u64, n: String });
    version!(v6 { id: u64, n: u32, must: super::NoDefault });

    #[derive(Clone, PartialEq, Debug, crate::Data)]
    #[data(crate = crate)]
    pub struct NoDefault(pub u8);

    /// The same under other names, and wider.
    #[derive(Clone, PartialEq, Debug, crate::Data)]
    #[data(crate = crate)]
    pub struct Customer {
        #[data(alias = "id")]
        pub number: u64,
        #[data(alias = "n")]
        pub visits: Option<i64>,
        #[data(default = of_old_state)]
        pub tree: Tree,
    }

    #[derive(Clone, PartialEq, Debug, crate::Data)]
    #[data(crate = crate)]
    pub struct Tree {
        pub leaves: u16,
        pub below: Vec<Tree>,
    }

    pub fn of_old_state() -> Tree {
        Tree { leaves: 1, below: Vec::new() }
    }

    /// The next version of it.
    pub mod later {
        #[derive(Clone, PartialEq, Debug, crate::Data)]
        #[data(crate = crate)]
        pub struct Customer {
            pub number: u64,
            pub tree: Tree,
        }

        #[derive(Clone, PartialEq, Debug, crate::Data)]
        #[data(crate = crate)]
        pub struct Tree {
            pub below: Vec<Tree>,
            pub leaves: u32,
        }
    }
}

use versions::{Customer, Tree, later, of_old_state, v1, v2, v3, v4, v6};

fn accounts(factory: &impl BackendFactory) -> Result<Vec<KeyedStateHandle>, StateError> {
    let mut backend = whole::<u64>(factory);
    let (one, many) = (backend.value::<v1::Account>("account")?, backend.map::<u8, v1::Account>("accounts")?);
    for key in 0..200u64 {
        one.set(&at(&key), v1::Account { id: key, n: 7 })?;
        many.put(&at(&key), 1, v1::Account { id: key, n: 8 })?;
    }
    save(&mut backend)
}

fn restored<F: BackendFactory>(
    factory: &F,
    handles: &[KeyedStateHandle],
) -> Result<F::Backend<u64>, StateError> {
    let mut backend = factory.create::<u64>(groups(), groups().all())?;
    backend.restore(handles, &STORE)?;
    Ok(backend)
}

/// Also inside of a map, and in two steps.
pub fn fields_may_be_added_and_dropped(factory: &impl BackendFactory) {
    must(|| {
        let mut second = restored(factory, &accounts(factory)?)?;
        let state = second.value::<v2::Account>("account")?;
        let map = second.map::<u8, v2::Account>("accounts")?;
        for key in 0..200u64 {
            assert_eq!(state.get(&at(&key))?, Some(v2::Account { id: key, note: None, n: 7 }));
            assert_eq!(map.get(&at(&key), &1)?, Some(v2::Account { id: key, note: None, n: 8 }));
            state.set(&at(&key), v2::Account { id: key, note: Some("long text".into()), n: 9 })?;
        }
        let mut third = restored(factory, &save(&mut second)?)?;
        let (state, map) =
            (third.value::<v3::Account>("account")?, third.map::<u8, v3::Account>("accounts")?);
        for key in 0..200u64 {
            assert_eq!(state.get(&at(&key))?, Some(v3::Account { n: 9 }));
            assert_eq!(map.get(&at(&key), &1)?, Some(v3::Account { n: 8 }));
        }
        Ok(())
    });
}

/// Types, fields and numbers, in every kind of state, in two steps.
pub fn names_change_and_numbers_widen_and_no_value_is_lost(factory: &impl BackendFactory) {
    let tree =
        || Tree { leaves: 2, below: vec![of_old_state(), Tree { leaves: 3, below: vec![of_old_state()] }] };
    must(|| {
        let mut first = whole::<u64>(factory);
        let (one, many) = (first.value::<v1::Account>("account")?, first.map::<u8, v1::Account>("accounts")?);
        let (list, number) = (first.list::<u8>("list")?, first.value::<f32>("number")?);
        for key in 0..200u64 {
            one.set(&at(&key), v1::Account { id: key, n: 7 })?;
            many.put(&at(&key), 1, v1::Account { id: key, n: 8 })?;
            list.update(&at(&key), vec![1, key as u8])?;
            number.set(&at(&key), key as f32 / 2.0)?;
        }
        let mut second = restored(factory, &save(&mut first)?)?;
        let (one, many) = (second.value::<Customer>("account")?, second.map::<u8, Customer>("accounts")?);
        let (list, number) = (second.list::<Option<u64>>("list")?, second.value::<f64>("number")?);
        for key in 0..200u64 {
            let customer = |n| Customer { number: key, visits: Some(n), tree: of_old_state() };
            assert_eq!(one.get(&at(&key))?, Some(customer(7)));
            assert_eq!(many.get(&at(&key), &1)?, Some(customer(8)));
            assert_eq!(list.get(&at(&key))?, [Some(1), Some(key)]);
            assert_eq!(number.get(&at(&key))?, Some(key as f64 / 2.0));
            one.set(&at(&key), Customer { tree: tree(), ..customer(9) })?;
        }
        let mut third = restored(factory, &save(&mut second)?)?;
        let one = third.value::<later::Customer>("account")?;
        let later = |leaves, below| later::Tree { below, leaves };
        let below = vec![later(1, vec![]), later(3, vec![later(1, vec![])])];
        for key in 0..200u64 {
            let tree = later(2, below.clone());
            assert_eq!(one.get(&at(&key))?, Some(later::Customer { number: key, tree }));
        }
        Ok(())
    });
}

/// One sentence each.
pub fn another_type_is_refused_with_the_state_and_both_types(factory: &impl BackendFactory) {
    must(|| {
        let handles = accounts(factory)?;
        let check = |error: StateError, words: &[&str]| {
            let text = error.to_string();
            assert!(words.iter().all(|word| text.contains(word)), "{words:?} in: {text}");
            assert_eq!(error.kind(), ErrorKind::Plan, "a restart can't help");
        };
        let stored = "value state of `struct Account { id: u64, n: u32 }`";
        let mut backend = restored(factory, &handles)?;
        check(
            refused(backend.value::<v4::Account>("account")),
            &["state `account`", stored, "struct Account { id: u64, n: string }", "field `n` of `Account`"],
        );
        check(
            refused(backend.value::<v6::Account>("account")),
            &["`account`", "field `must` of `Account` is new", "have a `Default`"],
        );
        check(refused(backend.list::<v1::Account>("account")), &["a value state can't become a list state"]);
        check(refused(backend.namespaced::<u64, v1::Account>("account")), &["namespace can never change"]);
        check(refused(backend.map::<u16, v1::Account>("accounts")), &["`accounts`", "keys of a map"]);
        // a refused registration changes nothing
        assert_eq!(
            backend.value::<v1::Account>("account")?.get(&at(&1u64))?,
            Some(v1::Account { id: 1, n: 7 })
        );
        Ok(())
    });
}

/// Before any state is registered.
pub fn another_key_type_or_max_parallelism_is_refused(factory: &impl BackendFactory) {
    must(|| {
        let handles = accounts(factory)?;
        let error = refused(whole::<String>(factory).restore(&handles, &STORE)).to_string();
        assert!(
            error.contains("`account`") && error.contains("`u64`") && error.contains("`string`"),
            "{error}"
        );
        let other = KeyGroups::new(64);
        let mut backend = made(factory.create::<u64>(other, other.all()));
        let error = refused(backend.restore(&handles, &STORE)).to_string();
        assert!(error.contains("128") && error.contains("64"), "{error}");
        Ok(())
    });
}

fn with_byte_flipped(handle: &KeyedStateHandle, at: usize) -> KeyedStateHandle {
    let StreamHandle::Inline { bytes } = &handle.stream else { panic!("the memory store writes inline") };
    let mut bytes = bytes.to_vec();
    bytes[at] ^= 0x10;
    KeyedStateHandle { stream: StreamHandle::Inline { bytes: Arc::from(bytes) }, ..handle.clone() }
}

/// And a stream that was cut.
pub fn every_damaged_byte_is_refused(factory: &impl BackendFactory) {
    must(|| {
        let mut backend = whole::<u64>(factory);
        let state = backend.value::<String>("text")?;
        for key in 0..20u64 {
            state.set(&at(&key), format!("value {key}"))?;
        }
        let handle = save(&mut backend)?.remove(0);
        for byte in 0..handle.stream.len() as usize {
            let damaged = with_byte_flipped(&handle, byte);
            let error = refused(whole::<u64>(factory).restore(&[damaged], &STORE));
            let StateError::Corrupt { path, expected, found, .. } = &error else {
                panic!("byte {byte}: {error}")
            };
            assert!(expected != found && !path.is_empty());
            assert_eq!(error.kind(), ErrorKind::CorruptSnapshot);
        }
        let StreamHandle::Inline { bytes } = &handle.stream else { panic!("the memory store writes inline") };
        let cut = StreamHandle::Inline { bytes: Arc::from(&bytes[..bytes.len() - 1]) };
        let error = refused(
            whole::<u64>(factory).restore(&[KeyedStateHandle { stream: cut, ..handle.clone() }], &STORE),
        );
        assert_eq!(error.kind(), ErrorKind::CorruptSnapshot);
        Ok(())
    });
}

/// A subtask reads its own sections and no more.
pub fn damage_in_a_key_group_of_another_subtask_is_not_read(factory: &impl BackendFactory) {
    must(|| {
        let mut backend = whole::<u64>(factory);
        let state = backend.value::<u64>("n")?;
        for key in 0..1000u64 {
            state.set(&at(&key), key)?;
        }
        let handle = save(&mut backend)?.remove(0);
        let mine = KeyGroupRange::new(0, 64);
        let other = handle.sections.iter().find(|s| s.group >= KeyGroup(64)).map(|s| s.offset as usize);
        let damaged = [with_byte_flipped(&handle, other.unwrap_or_default() + 1)];
        let mut backend = part::<u64>(factory, mine);
        backend.restore(&damaged, &STORE)?;
        let expected = (0..1000u64).filter(|key| mine.contains(at(key).hash.group())).count();
        assert_eq!(backend.keyed_value::<u64>("n")?.len()?, expected);
        let error = refused(part::<u64>(factory, KeyGroupRange::new(64, 128)).restore(&damaged, &STORE));
        assert!(error.to_string().contains("key group"), "{error}");
        Ok(())
    });
}

/// The limit is by state, not by snapshot.
pub fn a_state_above_the_limit_is_refused_with_its_size(factory: &impl BackendFactory) {
    must(|| {
        let mut backend = whole::<u64>(factory);
        let (small, large) =
            (backend.value::<Vec<u8>>("small")?, backend.namespaced::<u8, Vec<u8>>("large")?);
        for key in 0..100u64 {
            small.set(&at(&key), vec![1; 800])?;
            large.insert((key % 2) as u8, at(&key).hash, &key, vec![1; 1200])?;
        }
        let store = MemorySnapshotStore::with_max_state_size(100_000);
        let error = refused(backend.freeze()?.write(&store, "n"));
        let StateError::TooLarge { name, size, limit } = &error else { panic!("{error}") };
        assert_eq!((name.as_str(), *limit), ("large", 100_000));
        assert!((120_000..130_000).contains(size), "{size}");
        assert!(error.to_string().contains("state.backend.type"), "{error}");
        for key in 0..100u64 {
            large.update(1, at(&key).hash, &key, Vec::new, |v| v.truncate(300))?;
            large.update(0, at(&key).hash, &key, Vec::new, |v| v.truncate(300))?;
        }
        backend.freeze()?.write(&store, "n")?;
        Ok(())
    });
}
