//! Types that hold themselves: how they are described without an end, and how deep their values may nest.
//!
//! A value's depth has a limit, since damaged bytes must not overflow the stack of who reads them; a value
//! that is deeper is not written either.

use std::any::{TypeId, type_name};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

use crate::{DecodeError, Field, Schema, Variant};

/// How deep values of types that hold themselves may nest.
pub const DEEPEST_VALUE: usize = 128;

/// In [`Schema::Again`] while a schema is made: the number is a place in `DESCRIBED`.
const UNBOUND: u32 = 1 << 31;

thread_local! {
    /// The types that are being described, the outermost first, and whether each has met itself.
    static DESCRIBED: RefCell<Vec<(TypeId, bool)>> = const { RefCell::new(Vec::new()) };
    /// How deep in types that hold themselves the value lies that is being read or written.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    /// The stored types that hold themselves around the value that is being read, the outermost first.
    static STORED: RefCell<Vec<Arc<Schema>>> = const { RefCell::new(Vec::new()) };
}

/// Runs at the end of a scope, also when it is left by a panic.
struct AtEnd<F: FnMut()>(F);

impl<F: FnMut()> Drop for AtEnd<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// The schema of `T`, which may hold itself: where it does, it is [`Schema::Again`].
pub fn describe<T: 'static>(make: impl FnOnce() -> Schema) -> Schema {
    let id = TypeId::of::<T>();
    let met = DESCRIBED.with_borrow_mut(|types| {
        let at = types.iter().position(|(known, _)| *known == id);
        match at {
            Some(at) => types[at].1 = true,
            None => types.push((id, false)),
        }
        at
    });
    if let Some(at) = met {
        return Schema::Again(UNBOUND | at as u32);
    }
    let mut found = None;
    let schema = {
        let _end = AtEnd(|| {
            found = DESCRIBED.with_borrow_mut(|types| types.pop().map(|(_, met)| (types.len(), met)))
        });
        make()
    };
    match found {
        Some((at, true)) => Schema::Recursive(Arc::new(bound(schema, UNBOUND | at as u32, 0))),
        _ => schema,
    }
}

/// Makes each mention of `name` a reference to the type that is put around `schema`.
fn bound(schema: Schema, name: u32, around: u32) -> Schema {
    let inner = |schema: Box<Schema>| Box::new(bound(*schema, name, around));
    let in_fields = |fields: Vec<Field>| -> Vec<Field> {
        fields.into_iter().map(|field| Field { schema: bound(field.schema, name, around), ..field }).collect()
    };
    match schema {
        Schema::Again(found) if found == name => Schema::Again(around),
        Schema::Recursive(body) => {
            Schema::Recursive(Arc::new(bound(Arc::unwrap_or_clone(body), name, around + 1)))
        }
        Schema::Struct { name, fields } => Schema::Struct { name, fields: in_fields(fields) },
        Schema::Enum { name, variants } => {
            let variants = variants.into_iter();
            let variants = variants.map(|variant| Variant { fields: in_fields(variant.fields), ..variant });
            Schema::Enum { name, variants: variants.collect() }
        }
        Schema::Option(part) => Schema::Option(inner(part)),
        Schema::List(part) => Schema::List(inner(part)),
        Schema::Set(part) => Schema::Set(inner(part)),
        Schema::Expiring(part) => Schema::Expiring(inner(part)),
        Schema::Array(part, n) => Schema::Array(inner(part), n),
        Schema::Map(key, value) => Schema::Map(inner(key), inner(value)),
        Schema::Tuple(parts) => {
            Schema::Tuple(parts.into_iter().map(|part| bound(part, name, around)).collect())
        }
        Schema::Again(_) | Schema::Primitive(_) | Schema::Opaque(_) => schema,
    }
}

fn one_deeper<R>(then: impl FnOnce(usize) -> R) -> R {
    let depth = DEPTH.get() + 1;
    DEPTH.set(depth);
    let _end = AtEnd(|| DEPTH.set(depth - 1));
    then(depth)
}

/// Reads a value of a type that holds itself.
pub fn read_deeper<T>(
    what: &'static str,
    read: impl FnOnce() -> Result<T, DecodeError>,
) -> Result<T, DecodeError> {
    one_deeper(|depth| match depth > DEEPEST_VALUE {
        true => {
            let why = format!("it nests deeper than {DEEPEST_VALUE} values");
            Err(DecodeError::Invalid { what, why })
        }
        false => read(),
    })
}

/// Writes a value of a type that holds itself.
///
/// # Panics
/// If it nests deeper than can be read: there is no way out for an error, and a checkpoint that cannot be
/// restored would be worse. Whoever calls this for a user's type expects that its code may panic, and names
/// the operator.
pub fn write_deeper<T>(write: impl FnOnce()) {
    one_deeper(|depth| {
        assert!(
            depth <= DEEPEST_VALUE,
            "a value of `{}` nests deeper than {DEEPEST_VALUE} values of its own type, so it could never be read: keep it in a list, \
             its parts by their numbers",
            type_name::<T>()
        );
        write();
    });
}

/// Goes into a stored type that holds itself, or on with one that it lies in; `read` gets what it looks like.
pub fn within<R>(
    stored: &Schema,
    read: impl FnOnce(&Schema) -> Result<R, DecodeError>,
) -> Result<R, DecodeError> {
    match stored {
        Schema::Recursive(body) => {
            STORED.with_borrow_mut(|around| around.push(body.clone()));
            let _end = AtEnd(|| {
                STORED.with_borrow_mut(Vec::pop);
            });
            read(body)
        }
        Schema::Again(n) => {
            // what it means lies further out: until it is read, the types in between are not around
            let between = STORED.with_borrow_mut(|around| {
                let at = around.len().checked_sub(*n as usize)?;
                let body = around.get(at.checked_sub(1)?)?.clone();
                Some((body, around.split_off(at)))
            });
            let Some((body, mut between)) = between else {
                return Err(DecodeError::other_form("type that holds itself", stored));
            };
            let _end = AtEnd(|| STORED.with_borrow_mut(|around| around.append(&mut between)));
            read(&body)
        }
        stored => read(stored),
    }
}

/// A schema that is no reference to a type that holds itself, and the types around it.
#[derive(Clone)]
pub(crate) struct Unfolded<'a> {
    pub schema: &'a Schema,
    around: Vec<&'a Schema>,
}

impl<'a> Unfolded<'a> {
    /// A whole schema.
    pub fn of(schema: &'a Schema) -> Self {
        Self { schema, around: Vec::new() }.unfolded()
    }

    /// A part of this one.
    pub fn part(&self, schema: &'a Schema) -> Self {
        Self { schema, around: self.around.clone() }.unfolded()
    }

    fn unfolded(mut self) -> Self {
        loop {
            match self.schema {
                Schema::Recursive(body) => {
                    self.around.push(body);
                    self.schema = body;
                }
                Schema::Again(n) => {
                    self.around.truncate(self.around.len().saturating_sub(*n as usize));
                    let Some(body) = self.around.last() else { return self };
                    self.schema = body;
                }
                _ => return self,
            }
        }
    }
}

/// The types that hold themselves around a part of a schema, for those who read values by schemas alone.
#[derive(Default, Debug)]
pub struct Around {
    around: Vec<Arc<Schema>>,
    depth: usize,
}

impl Around {
    /// As [`within`].
    pub fn within<R>(
        &mut self,
        schema: &Schema,
        read: impl FnOnce(&Schema, &mut Self) -> Result<R, DecodeError>,
    ) -> Result<R, DecodeError> {
        if self.depth >= DEEPEST_VALUE {
            let why = format!("it nests deeper than {DEEPEST_VALUE} values");
            return Err(DecodeError::Invalid { what: "value", why });
        }
        let missing = || DecodeError::other_form("type that holds itself", schema);
        let (body, between) = match schema {
            Schema::Recursive(body) => {
                self.around.push(body.clone());
                (body.clone(), Vec::new())
            }
            Schema::Again(n) => {
                let at = self.around.len().checked_sub(*n as usize).ok_or_else(missing)?;
                let body = at.checked_sub(1).and_then(|at| self.around.get(at)).ok_or_else(missing)?.clone();
                (body, self.around.split_off(at))
            }
            schema => return read(schema, self),
        };
        self.depth += 1;
        let result = read(&body, self);
        self.depth -= 1;
        if matches!(schema, Schema::Recursive(_)) {
            self.around.pop();
        }
        self.around.extend(between);
        result
    }
}

/// [`Schema::skip`] for a part of the stored type that is being read.
pub fn skip(stored: &Schema, input: &mut &[u8]) -> Result<(), DecodeError> {
    let around = STORED.with_borrow(Vec::clone);
    stored.skip_within(&mut Around { around, depth: 0 }, input)
}
