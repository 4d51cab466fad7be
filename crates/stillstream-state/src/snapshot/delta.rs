//! Files of changes: which hashes changed since an earlier checkpoint, and what they hold now.
//! `docs/formats.md` has the bytes.

use super::Header;
use super::header::read_versioned;
use crate::StateError;
use crate::data::{Data, DecodeError};

const MAGIC: [u8; 4] = *b"SSKD";
const VERSION: u32 = 1;

/// How a file of changes holds one state.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DeltaState {
    /// All of it, as in a full snapshot: what older files hold of the state is void.
    pub whole: bool,
    /// The namespaces that there are; what older files hold of others is void. `None` for a state without
    /// namespaces.
    pub namespaces: Option<Vec<Vec<u8>>>,
}

/// What stands at the start of a file of changes. States that are not named are gone.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DeltaHeader {
    /// Key type, number of key groups and states.
    pub header: Header,
    /// In the order of the header.
    pub states: Vec<DeltaState>,
}

impl DeltaHeader {
    /// Its bytes, behind magic number and version.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        VERSION.encode(&mut out);
        self.header.encode(&mut out);
        for state in &self.states {
            state.whole.encode(&mut out);
            state.namespaces.encode(&mut out);
        }
        out
    }

    /// Reads a header; `path` is only for the error.
    pub fn from_bytes(bytes: &[u8], path: &str) -> Result<Self, StateError> {
        let not = "it is not a file of changes to keyed state of Stillstream";
        read_versioned(bytes, MAGIC, VERSION, not, path, |input| {
            let header = Header::decode(input)?;
            let states = header
                .states
                .iter()
                .map(|_| Ok(DeltaState { whole: bool::decode(input)?, namespaces: Option::decode(input)? }));
            let states = states.collect::<Result<_, DecodeError>>()?;
            Ok(Self { header, states })
        })
    }
}

/// Which hashes of a key group a chunk of changes replaces: those whose bits lie in `from..=to` and whose
/// cell is in `mask`. The cell of a hash is `(bits & 0xffff) * cells >> 16`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Record {
    /// The first bits.
    pub from: u64,
    /// The last bits.
    pub to: u64,
    /// How many cells there are, 64 at most.
    pub cells: u8,
    /// A bit for each cell.
    pub mask: u64,
}

impl Record {
    /// Its size in bytes.
    pub const BYTES: usize = 25;

    /// Whether it replaces a hash with these bits.
    pub fn covers(&self, bits: u64) -> bool {
        let cell = ((bits & 0xffff) * self.cells as u64) >> 16;
        (self.from..=self.to).contains(&bits) && self.mask >> (cell & 63) & 1 == 1
    }

    /// Appends its bytes.
    pub fn encode(&self, out: &mut Vec<u8>) {
        self.from.encode(out);
        self.to.encode(out);
        self.cells.encode(out);
        self.mask.encode(out);
    }

    /// Reads one.
    pub fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        Ok(Self {
            from: u64::decode(input)?,
            to: u64::decode(input)?,
            cells: u8::decode(input)?,
            mask: u64::decode(input)?,
        })
    }
}

/// The records of one file for one state, namespace and key group, ascending and disjoint.
type Layer = Vec<Record>;

/// Hashes that newer files have something to say of: an older entry with such a hash is void.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cover {
    layers: Vec<std::sync::Arc<Layer>>,
}

impl Cover {
    pub fn push(&mut self, mut layer: Layer) {
        layer.sort_unstable_by_key(|record| record.from);
        self.layers.push(layer.into());
    }

    pub fn contains(&self, bits: u64) -> bool {
        self.layers.iter().any(|layer| {
            let after = layer.partition_point(|record| record.from <= bits);
            after > 0 && layer[after - 1].covers(bits)
        })
    }
}
