//! Side outputs: further streams that an operator emits into, each named by an [`OutputTag`].

use std::any::{Any, TypeId, type_name};
use std::collections::HashMap;
use std::fmt;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use stillstream_runtime::Output;
use stillstream_state::Data;
use stillstream_types::{Error, ErrorKind, Result};

use crate::collector::Collector;

/// Names a side output and its type.
///
/// ```
/// use stillstream::prelude::*;
/// const LATE: OutputTag<String> = OutputTag::new("late");
/// assert_eq!(LATE.name(), "late");
/// ```
pub struct OutputTag<T> {
    name: &'static str,
    value: PhantomData<fn() -> T>,
}

impl<T> OutputTag<T> {
    /// A tag. Two tags with the same name and type are the same side output.
    pub const fn new(name: &'static str) -> Self {
        Self { name, value: PhantomData }
    }

    /// The name.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl<T> Clone for OutputTag<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for OutputTag<T> {}

impl<T> fmt::Debug for OutputTag<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "OutputTag({:?}, {})", self.name, type_name::<T>())
    }
}

#[derive(Clone, Copy)]
struct Declared {
    name: &'static str,
    value: TypeId,
    type_name: &'static str,
    make: fn() -> Box<dyn AnyCollector>,
}

/// The side outputs of one operator that somebody reads, numbered in the order in which they were asked for.
///
/// The operator is made before its side outputs are asked for, so it shares this list and looks into it when
/// the job starts.
#[derive(Clone)]
pub(crate) struct Sides {
    list: Option<Arc<Mutex<Vec<Declared>>>>,
    /// A source emits into side output 0 whatever it is called.
    only_one: bool,
}

fn lock(list: &Mutex<Vec<Declared>>) -> MutexGuard<'_, Vec<Declared>> {
    list.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sides {
    /// Of an operator that may emit into side outputs.
    pub fn new() -> Self {
        Self { list: Some(Arc::default()), only_one: false }
    }

    /// Of a source, which has at most one.
    pub fn of_source() -> Self {
        Self { list: Some(Arc::default()), only_one: true }
    }

    /// Of an operator that has none.
    pub fn none() -> Self {
        Self { list: None, only_one: false }
    }

    /// The number of a side output, or what is wrong with asking for it.
    pub fn declare<T: Data>(&self, tag: &OutputTag<T>, operator: &str) -> Result<u32, String> {
        let Some(list) = &self.list else {
            return Err(format!(
                "`{operator}` has no side outputs, so side_output({:?}) would never get a record: call it on the stream \
                 that `process` or a window returned",
                tag.name
            ));
        };
        let mut list = lock(list);
        if let Some(at) = list.iter().position(|declared| declared.name == tag.name) {
            let declared = &list[at];
            return match declared.value == TypeId::of::<T>() {
                true => Ok(at as u32),
                false => Err(format!(
                    "side output {:?} of `{operator}` is read both as `{}` and as `{}`: give one of them another name",
                    tag.name,
                    declared.type_name,
                    type_name::<T>()
                )),
            };
        }
        if let (true, Some(first)) = (self.only_one, list.first()) {
            return Err(format!(
                "source `{operator}` has one side output, which is read as {:?} and as {:?}: use one OutputTag for both",
                first.name, tag.name
            ));
        }
        list.push(Declared {
            name: tag.name,
            value: TypeId::of::<T>(),
            type_name: type_name::<T>(),
            make: || Box::new(Collector::<T>::default()),
        });
        Ok(list.len() as u32 - 1)
    }

    /// Buffers for one parallel instance of the operator.
    pub fn open(&self) -> SideCollectors {
        let declared = self.list.as_ref().map(|list| lock(list).clone()).unwrap_or_default();
        let open = |(number, declared): (usize, &Declared)| {
            (declared.name, (number as u32, *declared, (declared.make)()))
        };
        SideCollectors(declared.iter().enumerate().map(open).collect())
    }
}

trait AnyCollector: Any {
    fn flush(&mut self, side: u32, out: &mut Output);
    fn as_any(&mut self) -> &mut dyn Any;
}

impl<T: Data> AnyCollector for Collector<T> {
    fn flush(&mut self, side: u32, out: &mut Output) {
        self.flush_side(side, out);
    }
    fn as_any(&mut self) -> &mut dyn Any {
        self
    }
}

/// The side outputs of one parallel instance.
pub(crate) struct SideCollectors(HashMap<&'static str, (u32, Declared, Box<dyn AnyCollector>)>);

impl SideCollectors {
    /// Emits a record with an event time. A side output that nobody reads drops it.
    ///
    /// # Errors
    /// The side output is read as another type.
    pub fn emit<T: Data>(&mut self, tag: &OutputTag<T>, value: T, time: Option<i64>) -> Result<()> {
        let Some((_, declared, collector)) = self.0.get_mut(tag.name) else { return Ok(()) };
        match collector.as_any().downcast_mut::<Collector<T>>() {
            Some(collector) => {
                collector.emit_at(value, time);
                Ok(())
            }
            None => Err(Error::new(
                ErrorKind::Plan,
                format!(
                    "side output {:?} is emitted into as `{}` but read as `{}`: use one OutputTag for both",
                    tag.name,
                    type_name::<T>(),
                    declared.type_name
                ),
            )),
        }
    }

    /// Hands on what was emitted.
    pub fn flush(&mut self, out: &mut Output) {
        for (side, _, collector) in self.0.values_mut() {
            collector.flush(*side, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LATE: OutputTag<u64> = OutputTag::new("late");

    #[test]
    fn a_side_output_asked_for_twice_has_one_number() {
        let sides = Sides::new();
        assert_eq!(sides.declare(&LATE, "f"), Ok(0));
        assert_eq!(sides.declare(&OutputTag::<String>::new("bad"), "f"), Ok(1));
        assert_eq!(sides.declare(&LATE, "f"), Ok(0));
    }

    #[test]
    fn a_side_output_read_as_two_types_is_refused_with_both() {
        let sides = Sides::new();
        sides.declare(&LATE, "f").unwrap();
        let error = sides.declare(&OutputTag::<String>::new("late"), "f").unwrap_err();
        assert!(error.contains("u64") && error.contains("String"), "{error}");
    }

    #[test]
    fn emitting_another_type_than_is_read_is_an_error() {
        let sides = Sides::new();
        sides.declare(&LATE, "f").unwrap();
        let mut open = sides.open();
        open.emit(&LATE, 1, None).unwrap();
        let error = open.emit(&OutputTag::<u32>::new("late"), 1, None).unwrap_err().to_string();
        assert!(error.contains("u32") && error.contains("u64"), "{error}");
    }

    #[test]
    fn a_source_has_one_side_output_whatever_its_name() {
        let sides = Sides::of_source();
        assert_eq!(sides.declare(&LATE, "lines"), Ok(0));
        assert_eq!(sides.declare(&LATE, "lines"), Ok(0));
        let error = sides.declare(&OutputTag::<u64>::new("bad"), "lines").unwrap_err();
        assert!(
            error.contains("`lines`") && error.contains("\"late\"") && error.contains("\"bad\""),
            "{error}"
        );
    }

    #[test]
    fn an_operator_without_side_outputs_says_so() {
        let error = Sides::none().declare(&LATE, "map").unwrap_err();
        assert!(error.contains("`map` has no side outputs"), "{error}");
    }
}
