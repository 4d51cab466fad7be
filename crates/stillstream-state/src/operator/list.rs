//! [`OperatorListState`]: a list of items of one subtask.

use std::cell::RefCell;
use std::rc::Rc;

use super::OperatorState;
use super::snapshot::{FrozenItems, ItemWriter};
use crate::StateError;
use crate::data::{Data, DecodeError, Schema};

#[derive(Debug)]
pub(crate) struct Items<T> {
    name: String,
    items: RefCell<Vec<T>>,
}

impl<T> Items<T> {
    pub fn new(name: &str) -> Self {
        Self { name: name.into(), items: RefCell::default() }
    }

    fn write<R>(&self, f: impl FnOnce(&mut Vec<T>) -> R) -> Result<R, StateError> {
        match self.items.try_borrow_mut() {
            Ok(mut items) => Ok(f(&mut items)),
            Err(_) => Err(StateError::InUse { name: self.name.clone() }),
        }
    }
}

impl<T: Data> OperatorState for Items<T> {
    fn freeze(&self) -> Result<Box<dyn FrozenItems>, StateError> {
        self.write(|items| Box::new(Frozen(items.clone())) as Box<dyn FrozenItems>)
    }

    fn load(&self, item: &mut &[u8], migrate: Option<&Schema>) -> Result<(), DecodeError> {
        let item = match migrate {
            None => T::decode(item)?,
            Some(stored) => T::decode_evolved(stored, item)?,
        };
        self.items.borrow_mut().push(item);
        Ok(())
    }
}

struct Frozen<T>(Vec<T>);

impl<T: Data> FrozenItems for Frozen<T> {
    fn write(&self, out: &mut ItemWriter<'_>) {
        self.0.iter().for_each(|item| out.item(|bytes| item.encode(bytes)));
    }
}

/// A list of items of one subtask: dealt out evenly on restore, or all to everybody if it is a union list.
#[derive(Debug)]
pub struct OperatorListState<T>(pub(super) Rc<Items<T>>);

impl<T> Clone for OperatorListState<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Data> OperatorListState<T> {
    /// A copy of all items.
    pub fn get(&self) -> Result<Vec<T>, StateError> {
        self.0.write(|items| items.clone())
    }

    /// Looks at the items without copying them.
    pub fn with<R>(&self, f: impl FnOnce(&[T]) -> R) -> Result<R, StateError> {
        self.0.write(|items| f(items))
    }

    /// Appends one item.
    pub fn add(&self, item: T) -> Result<(), StateError> {
        self.0.write(|items| items.push(item))
    }

    /// Puts these items in place of all.
    pub fn update(&self, new: Vec<T>) -> Result<(), StateError> {
        self.0.write(|items| *items = new)
    }

    /// Keeps only the items for which `keep` is true: a union list's own part after a restore.
    pub fn retain(&self, keep: impl FnMut(&T) -> bool) -> Result<(), StateError> {
        self.0.write(|items| items.retain(keep))
    }

    /// Removes all items.
    pub fn clear(&self) -> Result<(), StateError> {
        self.0.write(Vec::clear)
    }
}
