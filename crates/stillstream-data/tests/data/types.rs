//! The types that a user has in a struct, beside numbers, strings, vectors and maps.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashSet, VecDeque};
use std::marker::PhantomData;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};
use std::num::NonZero;
use std::time::{SystemTime, UNIX_EPOCH};

use super::*;

#[test]
fn what_the_standard_library_has_comes_back_as_it_went() {
    check((usize::MAX, isize::MIN, NonZero::new(7u32).unwrap(), NonZero::new(-7i128).unwrap()));
    check(VecDeque::from(["a".to_string(), "b".to_string()]));
    check((BTreeSet::from([3u8, 1, 2]), BTreeSet::<String>::new()));
    check(HashSet::from([Some(1u16), None]));
    check((Box::<str>::from("é"), Arc::<[u8]>::from([1, 2]), Box::<[u16]>::from([3])));
    check((Cow::Borrowed("text"), Cow::<[u64]>::Owned(vec![1, 2])));
    check((Arc::new("shared".to_string()), Reverse(-1i8), PhantomData::<fn()>));
    check((Ok::<u8, String>(1), Err::<u8, String>("why".into())));
    let (four, six) = (Ipv4Addr::new(10, 0, 0, 1), Ipv6Addr::LOCALHOST);
    check((IpAddr::V4(four), IpAddr::V6(six), SocketAddr::from((four, 80))));
    check(SocketAddr::V6(SocketAddrV6::new(six, 443, 1, 2)));
    for time in [
        UNIX_EPOCH,
        UNIX_EPOCH + Duration::new(1, 999_999_999),
        UNIX_EPOCH - Duration::new(1, 1),
        UNIX_EPOCH - Duration::new(5, 0),
    ] {
        check(time);
    }
    check((NonZero::new(3usize), Some(Some(Duration::MAX))));
    let heap: BinaryHeap<Reverse<u32>> = [5, 1, 3].map(Reverse).into_iter().collect();
    let mut back = BinaryHeap::<Reverse<u32>>::decode(&mut &bytes_of(&heap)[..]).unwrap();
    assert_eq!(std::iter::from_fn(|| back.pop()).map(|item| item.0).collect::<Vec<_>>(), [1, 3, 5]);
}

#[test]
fn the_form_of_these_types_is_the_documented_one() {
    assert_eq!(bytes_of(&258usize), bytes_of(&258u64));
    assert_eq!(bytes_of(&VecDeque::from([1u8, 2])), bytes_of(&vec![1u8, 2]));
    assert_eq!(bytes_of(&BTreeSet::from([2u8, 1])), [2, 0, 0, 0, 1, 2]);
    assert_eq!(bytes_of(&Err::<u8, u16>(3)), [1, 0, 0, 0, 3, 0]);
    assert_eq!(bytes_of(&IpAddr::V4(Ipv4Addr::new(127, 0, 0, 1))), [0, 0, 0, 0, 127, 0, 0, 1]);
    let before = UNIX_EPOCH - Duration::from_nanos(1);
    assert_eq!(bytes_of(&before), [&[255; 8][..], &999_999_999u32.to_le_bytes()].concat());
    assert_eq!(Cow::<str>::schema(), String::schema());
    assert_eq!(Box::<[u8]>::schema(), Vec::<u8>::schema());
    assert_eq!(BTreeSet::<u8>::schema().to_string(), "set<u8>");
    assert_eq!(Result::<u8, ()>::schema().to_string(), "enum Result { Ok { 0: u8 }, Err { 0: unit } }");
}

#[test]
fn what_is_no_value_of_these_types_is_refused() {
    assert!(NonZero::<u8>::decode(&mut &[0u8][..]).is_err());
    assert!(SystemTime::decode(&mut &[&[0; 8][..], &[255; 4]].concat()[..]).is_err());
    let _ = SystemTime::decode(&mut &[&i64::MIN.to_le_bytes()[..], &[0; 4]].concat()[..]);
    assert!(IpAddr::decode(&mut &[2u8, 0, 0, 0, 1, 2, 3, 4][..]).is_err());
    // a damaged count of items without a form is not counted out
    assert_eq!(BTreeSet::<()>::decode(&mut &[255u8; 4][..]).map(|set| set.len()), Ok(1));
    let why = |found: Compatibility| match found {
        Compatibility::Incompatible(why) => why,
        other => panic!("{other:?}"),
    };
    let set = BTreeSet::<u8>::schema();
    assert!(why(set.compatible_with(&Vec::<u8>::schema())).contains("items that are equal would become one"));
    assert_eq!(Vec::<u8>::schema().compatible_with(&set), Compatibility::AsIs);
    assert!(why(BTreeSet::<u16>::schema().compatible_with(&set)).contains("items of a set"));
}

#[test]
fn a_key_of_these_types_has_the_group_that_its_schema_tells() {
    fn same<T: Key>(key: T) {
        let groups = KeyGroups::new(128);
        let told = T::schema().hash_of_key(&bytes_of(&key), groups);
        assert_eq!(told, Ok(key.key_hash(groups)), "{}", T::schema());
    }
    same((7usize, NonZero::new(3u8).unwrap()));
    same(IpAddr::V6(Ipv6Addr::LOCALHOST));
    same(SocketAddr::from((Ipv4Addr::LOCALHOST, 80)));
    same((UNIX_EPOCH, Cow::<str>::Borrowed("x"), Ok::<u8, u8>(1)));
    let mut turned = VecDeque::from([2u8, 3, 4]);
    turned.rotate_left(1);
    turned.push_front(1);
    same(turned);
    same(Arc::new(BTreeMap::from([(1u8, 2u8)])).keys().copied().collect::<Vec<u8>>());
}

#[cfg(feature = "chrono")]
#[test]
fn times_of_chrono_come_back_as_they_went() {
    use chrono::{DateTime, FixedOffset, NaiveDate, NaiveDateTime, NaiveTime, TimeDelta, Utc};
    for date in [NaiveDate::MIN, NaiveDate::MAX, NaiveDate::from_ymd_opt(1970, 1, 1).unwrap()] {
        check(date);
    }
    assert_eq!(bytes_of(&NaiveDate::from_ymd_opt(1970, 1, 2).unwrap()), [1, 0, 0, 0]);
    let leap = NaiveTime::from_hms_nano_opt(23, 59, 59, 1_999_999_999).unwrap();
    check((NaiveTime::MIN, leap));
    for time in [DateTime::<Utc>::MIN_UTC, DateTime::<Utc>::MAX_UTC, DateTime::from_timestamp(-1, 5).unwrap()]
    {
        check(time);
        check::<NaiveDateTime>(time.naive_utc());
    }
    let offset = FixedOffset::east_opt(-3600).unwrap();
    check(DateTime::from_timestamp(1_700_000_000, 7).unwrap().with_timezone(&offset));
    for delta in [TimeDelta::MIN, TimeDelta::MAX, TimeDelta::nanoseconds(-1), TimeDelta::zero()] {
        check(delta);
    }
    let too_late = bytes_of(&(DateTime::<Utc>::MAX_UTC, 3600));
    assert!(DateTime::<FixedOffset>::decode(&mut &too_late[..]).is_err());
    assert!(NaiveDate::decode(&mut &i32::MAX.to_le_bytes()[..]).is_err());
}

#[cfg(all(feature = "uuid", feature = "bytes", feature = "rust_decimal"))]
#[test]
fn uuids_bytes_and_decimals_come_back_as_they_went() {
    use rust_decimal::Decimal;
    check((uuid::Uuid::from_u128(1), bytes::Bytes::from_static(b"abc")));
    for decimal in [Decimal::MIN, Decimal::MAX, Decimal::new(-100, 2), Decimal::ZERO] {
        check(decimal);
        let back = Decimal::decode(&mut &bytes_of(&decimal)[..]).unwrap();
        assert_eq!(back.scale(), decimal.scale());
    }
    // whatever the bytes are, it is a decimal
    assert!(Decimal::decode(&mut &[255; 16][..]).unwrap().scale() <= Decimal::MAX_SCALE);
}
