//! IP and socket addresses.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4, SocketAddrV6};

use crate::{Data, DecodeError, Field, KeyHasher, Schema, Variant};

/// The octets, in the order in which one writes them.
macro_rules! octets {
    ($($ty:ty => $name:literal, $n:literal;)*) => {$(
        impl Data for $ty {
            fn encode(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.octets());
            }
            fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
                <[u8; $n]>::decode(input).map(Self::from)
            }
            fn schema() -> Schema {
                Schema::primitive($name)
            }
        }
    )*};
}

octets! { Ipv4Addr => "ipv4", 4; Ipv6Addr => "ipv6", 16; }

/// The form of a tuple of its parts.
impl Data for SocketAddrV4 {
    fn encode(&self, out: &mut Vec<u8>) {
        (*self.ip(), self.port()).encode(out);
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let (ip, port) = Data::decode(input)?;
        Ok(Self::new(ip, port))
    }
    fn schema() -> Schema {
        <(Ipv4Addr, u16)>::schema()
    }
    fn hash_key(&self, hasher: &mut KeyHasher) {
        (*self.ip(), self.port()).hash_key(hasher);
    }
}

/// The form of a tuple of its parts: address, port, flow information, scope.
impl Data for SocketAddrV6 {
    fn encode(&self, out: &mut Vec<u8>) {
        (*self.ip(), self.port(), self.flowinfo(), self.scope_id()).encode(out);
    }
    fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
        let (ip, port, flow, scope) = Data::decode(input)?;
        Ok(Self::new(ip, port, flow, scope))
    }
    fn schema() -> Schema {
        <(Ipv6Addr, u16, u32, u32)>::schema()
    }
    fn hash_key(&self, hasher: &mut KeyHasher) {
        (*self.ip(), self.port(), self.flowinfo(), self.scope_id()).hash_key(hasher);
    }
}

/// The form of an enum of both kinds.
macro_rules! either {
    ($($ty:ident => $v4:ty, $v6:ty;)*) => {$(
        impl Data for $ty {
            fn encode(&self, out: &mut Vec<u8>) {
                match self {
                    Self::V4(address) => {
                        0u32.encode(out);
                        address.encode(out);
                    }
                    Self::V6(address) => {
                        1u32.encode(out);
                        address.encode(out);
                    }
                }
            }
            fn decode(input: &mut &[u8]) -> Result<Self, DecodeError> {
                match u32::decode(input)? {
                    0 => <$v4>::decode(input).map(Self::V4),
                    1 => <$v6>::decode(input).map(Self::V6),
                    other => Err(crate::derive_support::no_variant(stringify!($ty), other, 2)),
                }
            }
            fn schema() -> Schema {
                Schema::Enum {
                    name: stringify!($ty).into(),
                    variants: vec![variant("V4", <$v4>::schema()), variant("V6", <$v6>::schema())],
                }
            }
            fn hash_key(&self, hasher: &mut KeyHasher) {
                match self {
                    Self::V4(address) => {
                        hasher.int(0);
                        address.hash_key(hasher);
                    }
                    Self::V6(address) => {
                        hasher.int(1);
                        address.hash_key(hasher);
                    }
                }
            }
        }
    )*};
}

either! { IpAddr => Ipv4Addr, Ipv6Addr; SocketAddr => SocketAddrV4, SocketAddrV6; }

/// A variant of one field.
pub(crate) fn variant(name: &str, schema: Schema) -> Variant {
    let field = Field { name: "0".into(), schema, default: false, aliases: Vec::new() };
    Variant { name: name.into(), fields: vec![field], aliases: Vec::new() }
}
