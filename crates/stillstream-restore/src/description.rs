//! [`PlanDescription`]: what operators a program has, and what states they keep.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use stillstream_jobmaster::OperatorInfo;
use stillstream_state::{Data, OperatorStateMeta, Schema, StateKind, StateMeta};
use stillstream_types::{JobId, KeyGroups, OperatorId, RedistributionMode};

use crate::contents::States;

/// The version of the form that this release writes, and the newest that it reads.
pub const PLAN_VERSION: u32 = 1;

/// Why a description of a plan cannot be read.
#[derive(Debug)]
pub struct DescriptionError(String);

impl fmt::Display for DescriptionError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for DescriptionError {}

/// The operators of a program, with everything that decides whether a snapshot can be restored into it.
///
/// Its JSON form is the plan file of `<job> plan --json` and `stillstream restore-plan`; `docs/formats.md`
/// describes it.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct PlanDescription {
    /// [`PLAN_VERSION`] of the release that wrote it.
    pub version: u32,
    /// The job's name.
    pub job: String,
    /// The job's id, which follows from its name.
    pub job_id: String,
    /// Where keyed state lives while the job runs.
    pub backend: Backend,
    /// In the order of the plan.
    pub operators: Vec<OperatorDescription>,
}

/// Where keyed state lives while a job runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Backend {
    /// In memory.
    Hashmap,
    /// In RocksDB.
    Rocksdb,
}

/// One operator of a program.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct OperatorDescription {
    /// The identity of its state: 32 hexadecimal digits.
    #[serde(with = "operator_id")]
    pub id: OperatorId,
    /// What the id was made from; without it the id comes from the shape of the graph.
    pub uid: Option<String>,
    /// For people.
    pub name: String,
    /// How many subtasks.
    pub parallelism: u32,
    /// Whether the program says so; else it is the job's parallelism.
    pub parallelism_is_set: bool,
    /// The number of key groups.
    pub max_parallelism: u32,
    /// Whether the program or its configuration says so; else a snapshot's number is taken over.
    pub max_parallelism_is_set: bool,
    /// It keeps state and has no uid, so that any change of the graph can lose it.
    pub needs_uid: bool,
    /// The type of the keys, if it has keyed state.
    pub key: Option<Type>,
    /// Its states. `None`: they are not known, since opening the operator failed.
    pub states: Option<Vec<StateDescription>>,
}

/// One state of an operator.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct StateDescription {
    /// The name under which it is registered.
    pub name: String,
    /// What kind of state it is.
    pub kind: Kind,
    /// The type of its namespaces, if it has any: windows as a rule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<Type>,
    /// The type of one key's value, or of one item of operator state; `unit` for timers. That state has a
    /// time to live is a part of it: `expiring<..>`.
    pub value: Type,
}

/// What kind of state it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// One value per key.
    Value,
    /// A list per key.
    List,
    /// A map per key.
    Map,
    /// One value per key, into which others are folded.
    Reducing,
    /// One accumulator per key.
    Aggregating,
    /// Timers of event time.
    EventTimers,
    /// Timers of processing time.
    ProcessingTimers,
    /// Operator state that is dealt out evenly.
    OperatorList,
    /// Operator state of which each subtask gets all.
    UnionList,
    /// A map that is equal in all subtasks.
    Broadcast,
}

/// A type as snapshots describe it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Type(pub Schema);

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[derive(Serialize, Deserialize)]
struct TypeForm {
    /// For people; not read.
    #[serde(rename = "type", default)]
    shown: String,
    /// The schema's binary form in hexadecimal digits.
    schema: String,
}

impl Serialize for Type {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let schema = self.0.to_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
        TypeForm { shown: self.0.to_string(), schema }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Type {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let TypeForm { shown, schema } = TypeForm::deserialize(deserializer)?;
        let bytes = unhex(&schema).ok_or_else(|| {
            serde::de::Error::custom(format!(
                "the schema of `{shown}` is not an even number of hexadecimal digits"
            ))
        })?;
        let schema = Schema::from_bytes(&bytes)
            .map_err(|error| serde::de::Error::custom(format!("the schema of `{shown}`: {error}")))?;
        Ok(Self(schema))
    }
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let digit = |at: usize| (*digits.get(at)? as char).to_digit(16);
    let byte = |at: usize| Some((digit(at)? << 4 | digit(at + 1)?) as u8);
    (0..digits.len()).step_by(2).map(byte).collect()
}

mod operator_id {
    use super::{Deserialize, Deserializer, OperatorId, Serializer};

    pub(super) fn serialize<S: Serializer>(id: &OperatorId, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(id)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<OperatorId, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

impl From<StateKind> for Kind {
    fn from(kind: StateKind) -> Self {
        match kind {
            StateKind::Value => Self::Value,
            StateKind::List => Self::List,
            StateKind::Map => Self::Map,
            StateKind::Reducing => Self::Reducing,
            StateKind::Aggregating => Self::Aggregating,
            StateKind::EventTimers => Self::EventTimers,
            StateKind::ProcessingTimers => Self::ProcessingTimers,
        }
    }
}

impl From<RedistributionMode> for Kind {
    fn from(mode: RedistributionMode) -> Self {
        match mode {
            RedistributionMode::Split => Self::OperatorList,
            RedistributionMode::Union => Self::UnionList,
            RedistributionMode::Broadcast => Self::Broadcast,
        }
    }
}

/// A state with what the state crate knows of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Meta {
    Keyed(StateMeta),
    Operator(OperatorStateMeta),
}

impl Meta {
    /// The fields of `stored` that this state's type does not have.
    pub(crate) fn dropped_fields(&self, stored: &Self) -> Vec<String> {
        match (self, stored) {
            (Self::Keyed(new), Self::Keyed(old)) => new.value.dropped_fields(&old.value),
            (Self::Operator(new), Self::Operator(old)) => new.schema.dropped_fields(&old.schema),
            _ => Vec::new(),
        }
    }
}

impl fmt::Display for Meta {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Keyed(meta) => meta.fmt(f),
            Self::Operator(meta) => meta.fmt(f),
        }
    }
}

impl StateDescription {
    fn keyed(meta: &StateMeta) -> Self {
        let namespace = (meta.namespace != <()>::schema()).then(|| Type(meta.namespace.clone()));
        let (name, value) = (meta.name.clone(), Type(meta.value.clone()));
        Self { name, kind: meta.kind.into(), namespace, value }
    }

    fn operator(name: &str, meta: &OperatorStateMeta) -> Self {
        let (kind, value) = (meta.mode.into(), Type(meta.schema.clone()));
        Self { name: name.into(), kind, namespace: None, value }
    }

    /// As the state crate describes it.
    pub(crate) fn meta(&self) -> Meta {
        let keyed = |kind| {
            let namespace = self.namespace.as_ref().map_or_else(<()>::schema, |Type(schema)| schema.clone());
            Meta::Keyed(StateMeta { name: self.name.clone(), kind, namespace, value: self.value.0.clone() })
        };
        let operator = |mode| Meta::Operator(OperatorStateMeta { mode, schema: self.value.0.clone() });
        match self.kind {
            Kind::Value => keyed(StateKind::Value),
            Kind::List => keyed(StateKind::List),
            Kind::Map => keyed(StateKind::Map),
            Kind::Reducing => keyed(StateKind::Reducing),
            Kind::Aggregating => keyed(StateKind::Aggregating),
            Kind::EventTimers => keyed(StateKind::EventTimers),
            Kind::ProcessingTimers => keyed(StateKind::ProcessingTimers),
            Kind::OperatorList => operator(RedistributionMode::Split),
            Kind::UnionList => operator(RedistributionMode::Union),
            Kind::Broadcast => operator(RedistributionMode::Broadcast),
        }
    }
}

impl OperatorDescription {
    /// Takes in which states the operator has.
    pub fn with_states(mut self, states: &States) -> Self {
        self.key = states.keyed.first().map(|header| Type(header.key.clone()));
        let keyed = states.keyed.iter().flat_map(|header| &header.states).map(StateDescription::keyed);
        let operator = states.operator.iter().map(|(name, meta)| StateDescription::operator(name, meta));
        self.states = Some(keyed.chain(operator).collect());
        self
    }

    /// As the restore planner knows it.
    pub(crate) fn info(&self) -> OperatorInfo {
        OperatorInfo {
            id: self.id,
            uid: self.uid.clone(),
            name: self.name.clone(),
            parallelism: self.parallelism,
            max_parallelism: self.max_parallelism,
        }
    }
}

impl PlanDescription {
    /// A description of a job.
    pub fn new(job: &str, backend: Backend, operators: Vec<OperatorDescription>) -> Self {
        let job_id = JobId::from_name(job).to_string();
        Self { version: PLAN_VERSION, job: job.into(), job_id, backend, operators }
    }

    /// Reads the JSON form.
    ///
    /// # Errors
    /// What is no plan file, or one of a newer release.
    pub fn from_json(text: &str) -> Result<Self, DescriptionError> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let not = |error| {
            DescriptionError(format!("it is not a plan file (`<job> plan --json` writes one): {error}"))
        };
        let Versioned { version } = serde_json::from_str(text).map_err(not)?;
        if version != PLAN_VERSION {
            return Err(DescriptionError(format!(
                "the plan file has version {version}, this release reads up to {PLAN_VERSION}: use the command of the release \
                 that wrote it"
            )));
        }
        serde_json::from_str(text).map_err(not)
    }

    /// The JSON form, over several lines.
    pub fn to_json(&self) -> String {
        // strings, numbers and lists alone: there is nothing in it that JSON cannot say
        serde_json::to_string_pretty(self).unwrap_or_default()
    }

    /// The same job at another parallelism, for operators that do not set their own.
    pub fn with_parallelism(mut self, parallelism: u32) -> Self {
        for operator in self.operators.iter_mut().filter(|operator| !operator.parallelism_is_set) {
            operator.parallelism = parallelism;
            if !operator.max_parallelism_is_set {
                operator.max_parallelism = KeyGroups::default_max_parallelism(parallelism);
            }
        }
        self
    }
}

#[cfg(test)]
mod tests {
    use stillstream_state::snapshot::Header;

    use super::*;

    fn described() -> PlanDescription {
        let operator = OperatorDescription {
            id: OperatorId::from_uid("count"),
            uid: Some("count".into()),
            name: "count".into(),
            parallelism: 2,
            parallelism_is_set: false,
            max_parallelism: 128,
            max_parallelism_is_set: false,
            needs_uid: false,
            key: None,
            states: None,
        };
        let keyed = vec![
            StateMeta::of::<(), Vec<(u64, String)>>("seen", StateKind::List),
            StateMeta::of::<i64, u64>("windows", StateKind::Value),
            StateMeta::of::<(), ()>("timers", StateKind::EventTimers),
        ];
        let header = Header { key: String::schema(), max_parallelism: 128, states: keyed };
        let rules = OperatorStateMeta { mode: RedistributionMode::Broadcast, schema: u32::schema() };
        let states = States { keyed: vec![header], operator: vec![("rules".into(), rules)] };
        PlanDescription::new("job", Backend::Hashmap, vec![operator.with_states(&states)])
    }

    #[test]
    fn a_plan_file_gives_back_what_was_written_with_all_types() {
        let plan = described();
        let text = plan.to_json();
        assert_eq!(PlanDescription::from_json(&text).unwrap(), plan);
        for part in
            ["\"type\": \"list<(u64, string)>\"", "\"kind\": \"broadcast\"", "\"max_parallelism\": 128"]
        {
            assert!(text.contains(part), "`{part}` in: {text}");
        }
        let metas: Vec<String> =
            plan.operators[0].states.iter().flatten().map(|state| state.meta().to_string()).collect();
        assert_eq!(
            metas,
            [
                "list state of `list<(u64, string)>`",
                "value state of `u64` in namespaces of `i64`",
                "event-time timers of `unit`",
                "broadcast state of `u32`",
            ]
        );
    }

    #[test]
    fn what_is_no_plan_file_is_refused_and_never_panics() {
        let text = described().to_json();
        let error = |text: &str| PlanDescription::from_json(text).unwrap_err().to_string();
        assert!(error(&text.replacen("\"version\": 1", "\"version\": 2", 1)).contains("version 2"));
        for (wrong, right) in
            [("\"schema\": \"01", "\"schema\": \"07"), ("\"schema\": \"0", "\"schema\": \"")]
        {
            let text = error(&text.replacen(wrong, right, 1));
            assert!(text.contains("the schema of `"), "{text}");
        }
        for end in (0..text.len()).step_by(7) {
            assert!(error(&text[..end]).contains("not a plan file"), "{end}");
        }
    }

    #[test]
    fn another_parallelism_is_for_operators_that_do_not_set_their_own() {
        let mut plan = described();
        let own = OperatorDescription { parallelism_is_set: true, ..plan.operators[0].clone() };
        plan.operators.push(own);
        let plan = plan.with_parallelism(200);
        let numbers = |at: usize| (plan.operators[at].parallelism, plan.operators[at].max_parallelism);
        assert_eq!((numbers(0), numbers(1)), ((200, 512), (2, 128)));
    }
}
