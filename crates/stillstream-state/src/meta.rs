//! [`StateMeta`]: what a snapshot remembers of one state.

use std::fmt;

use crate::data::{Compatibility, Data, DecodeError, Schema};
use crate::{StateError, StateKind, TimeDomain};

/// Name, kind and types of one keyed state.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StateMeta {
    /// The name under which it is registered.
    pub name: String,
    /// Its kind.
    pub kind: StateKind,
    /// The type of its namespaces; `unit` where it has none.
    pub namespace: Schema,
    /// The type of one key's value: `list<..>` for list state, `map<..>` for map state, the accumulator for
    /// aggregating state, `unit` for timers.
    pub value: Schema,
}

impl fmt::Display for StateMeta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            StateKind::EventTimers | StateKind::ProcessingTimers => {
                write!(f, "{} of `{}`", self.kind, self.namespace)
            }
            kind if self.namespace == <()>::schema() => write!(f, "{kind} of `{}`", self.value),
            kind => write!(f, "{kind} of `{}` in namespaces of `{}`", self.value, self.namespace),
        }
    }
}

impl StateMeta {
    /// A state of such values in such namespaces.
    pub fn of<N: Data, V: Data>(name: &str, kind: StateKind) -> Self {
        Self { name: name.into(), kind, namespace: N::schema(), value: V::schema() }
    }

    /// The timers of a service.
    pub fn of_timers<N: Data>(service: &str, domain: TimeDomain) -> Self {
        Self::of::<N, ()>(&domain.state_name(service), domain.kind())
    }

    /// Whether stored values can be read as this state's: as they are, with their own schema, or not at all.
    pub fn compatible_with(&self, stored: &StateMeta) -> Compatibility {
        if self.kind != stored.kind {
            return Compatibility::Incompatible(format!("a {} can't become a {}", stored.kind, self.kind));
        }
        if self.namespace.compatible_with(&stored.namespace) != Compatibility::AsIs {
            return Compatibility::Incompatible("the type of a namespace can never change".into());
        }
        self.value.compatible_with(&stored.value)
    }

    /// [`compatible_with`](Self::compatible_with) as an error that names the state and both types.
    pub fn check(&self, stored: &StateMeta) -> Result<Compatibility, StateError> {
        match self.compatible_with(stored) {
            Compatibility::Incompatible(why) => Err(StateError::Incompatible {
                name: self.name.clone(),
                stored: stored.to_string(),
                wanted: self.to_string(),
                why,
            }),
            allowed => Ok(allowed),
        }
    }

    /// Whether it is the state of a timer service: its entries hold time, key and namespace.
    pub fn is_timers(&self) -> bool {
        matches!(self.kind, StateKind::EventTimers | StateKind::ProcessingTimers)
    }

    /// The namespace at the front of a chunk; nothing for a state without namespaces.
    pub fn namespace_of<'a>(&self, payload: &'a [u8]) -> Result<&'a [u8], DecodeError> {
        let mut rest = payload;
        if !self.is_timers() {
            self.namespace.skip(&mut rest)?;
        }
        Ok(&payload[..payload.len() - rest.len()])
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        self.name.encode(out);
        out.push(match self.kind {
            StateKind::Value => 0,
            StateKind::List => 1,
            StateKind::Map => 2,
            StateKind::Reducing => 3,
            StateKind::Aggregating => 4,
            StateKind::EventTimers => 5,
            StateKind::ProcessingTimers => 6,
        });
        self.namespace.to_bytes().encode(out);
        self.value.to_bytes().encode(out);
    }

    pub(crate) fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let name = String::decode(input)?;
        let kind = match u8::decode(input)? {
            0 => StateKind::Value,
            1 => StateKind::List,
            2 => StateKind::Map,
            3 => StateKind::Reducing,
            4 => StateKind::Aggregating,
            5 => StateKind::EventTimers,
            6 => StateKind::ProcessingTimers,
            other => {
                return Err(DecodeError::Invalid { what: "state kind", why: format!("{other} is none") });
            }
        };
        let namespace = Schema::from_bytes(&Vec::decode(input)?)?;
        let value = Schema::from_bytes(&Vec::decode(input)?)?;
        Ok(Self { name, kind, namespace, value })
    }
}
