//! What every keyed backend must do, as tests that each backend runs.
//!
//! ```text
//! stillstream_state::keyed_backend_conformance!(heap, HeapBackendFactory::default());
//! ```

mod everything;
mod full;
mod kinds;
mod namespaces;
mod refusals;
mod rescaling;
mod snapshots;
mod ttl;

pub use everything::{Everything, PlainEntry, all_groups, backend_of, entries};
pub use full::*;
pub use kinds::*;
pub use namespaces::*;
pub use refusals::*;
pub use rescaling::*;
pub use snapshots::*;
pub use ttl::*;

use stillstream_types::{KeyGroupRange, KeyGroups, KeyedStateHandle};

use crate::{BackendFactory, CurrentKey, Key, KeyedBackend, MemorySnapshotStore, StateError};

/// One `#[test]` for each function of the suite, in a module of the given name.
#[macro_export]
macro_rules! keyed_backend_conformance {
    ($name:ident, $factory:expr) => {
        mod $name {
            #[allow(unused_imports)]
            use super::*;
            $crate::keyed_backend_conformance!(@each $factory;
                values_are_kept_by_key,
                lists_are_kept_by_key,
                maps_are_kept_by_key,
                reducing_and_aggregating_states_fold_what_is_added,
                a_typed_batch_updates_the_same_state_as_the_handle,
                a_state_used_inside_its_own_update_is_refused_by_name,
                a_key_of_another_type_is_refused,
                a_name_taken_by_another_type_is_refused_with_both_types,
                namespaces_are_kept_apart_and_ordered,
                a_namespace_is_taken_in_slices_and_the_rest_is_still_state,
                timers_come_by_time_and_once_each,
                timers_survive_a_restore_and_a_rescale,
                a_snapshot_holds_what_was_there_at_the_freeze,
                every_kind_survives_a_restore,
                keys_go_to_the_owner_of_their_group_when_3_subtasks_become_4_and_4_become_3,
                a_subtask_reads_only_its_own_key_groups,
                a_state_registered_before_the_restore_is_filled_too,
                a_state_that_nobody_registers_is_carried_along,
                an_empty_state_is_remembered_and_no_state_writes_nothing,
                fields_may_be_added_and_dropped,
                names_change_and_numbers_widen_and_no_value_is_lost,
                another_type_is_refused_with_the_state_and_both_types,
                another_key_type_or_max_parallelism_is_refused,
                every_damaged_byte_is_refused,
                damage_in_a_key_group_of_another_subtask_is_not_read,
                a_state_above_the_limit_is_refused_with_its_size,
                a_value_is_gone_when_its_time_to_live_has_passed_since_the_last_write,
                reads_prolong_life_where_they_count_as_touches,
                an_expired_value_is_seen_once_more_if_that_is_asked_for,
                items_of_lists_and_entries_of_maps_expire_for_themselves,
                folds_start_anew_when_nothing_was_added_for_the_time_to_live,
                a_full_snapshot_leaves_out_what_has_expired,
                the_time_of_the_last_touch_survives_restores_and_a_new_time_to_live_applies,
                a_time_to_live_can_be_switched_on_and_off_between_runs,
                a_time_to_live_that_makes_no_sense_is_refused,
            );
        }
    };
    (@each $factory:expr; $($test:ident,)*) => {$(
        #[test]
        fn $test() {
            $crate::conformance::$test(&$factory);
        }
    )*};
}

/// The key groups that the suite uses.
pub(crate) const GROUPS: u32 = 128;

pub(crate) fn groups() -> KeyGroups {
    KeyGroups::new(GROUPS)
}

pub(crate) fn whole<K: Key>(factory: &impl BackendFactory) -> impl KeyedBackend<Key = K> {
    part(factory, groups().all())
}

pub(crate) fn part<K: Key>(
    factory: &impl BackendFactory,
    range: KeyGroupRange,
) -> impl KeyedBackend<Key = K> {
    made(factory.create(groups(), range))
}

/// The backend, which every machine that runs tests can make.
pub(crate) fn made<B>(backend: Result<B, StateError>) -> B {
    backend.unwrap_or_else(|error| panic!("{error}"))
}

pub(crate) fn at<K: Key>(key: &K) -> CurrentKey<'_> {
    CurrentKey::new(key, key.key_hash(groups()))
}

pub(crate) const STORE: MemorySnapshotStore = MemorySnapshotStore::unlimited();

pub(crate) fn save(backend: &mut impl KeyedBackend) -> Result<Vec<KeyedStateHandle>, StateError> {
    backend.freeze()?.write(&STORE, "state")
}

/// What a test does: an error is a failed test.
pub(crate) fn must(test: impl FnOnce() -> Result<(), StateError>) {
    if let Err(error) = test() {
        panic!("{error}");
    }
}

/// The error of something that must fail.
pub(crate) fn refused<T>(result: Result<T, StateError>) -> StateError {
    match result {
        Ok(_) => panic!("it must be refused"),
        Err(error) => error,
    }
}
