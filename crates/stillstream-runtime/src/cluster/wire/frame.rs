//! The bytes of a message on a connection.

use std::io::{self, Read, Write};

/// A frame that no honest peer sends.
const LARGEST_FRAME: usize = 1 << 30;
/// The same for the first frame of a connection, which is read before it is known who has sent it.
pub(crate) const LARGEST_HELLO: usize = 1 << 10;

fn invalid(text: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, text)
}

/// The length of a frame, from its first four bytes.
pub(crate) fn frame_len(head: [u8; 4], largest: usize) -> io::Result<usize> {
    let len = u32::from_le_bytes(head) as usize;
    if len > largest {
        let text = format!(
            "a frame of {len} bytes where at most {largest} are allowed; the peer is no Stillstream process"
        );
        return Err(invalid(text));
    }
    Ok(len)
}

pub(crate) fn write_frame(stream: &mut impl Write, message: &impl prost::Message) -> io::Result<()> {
    let len = message.encoded_len();
    if len > LARGEST_FRAME {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!(
                "a message between processes has {len} bytes and at most {LARGEST_FRAME} are allowed; use a file system backend"
            ),
        ));
    }
    let mut bytes = Vec::with_capacity(4 + len);
    bytes.extend_from_slice(&(len as u32).to_le_bytes());
    message.encode(&mut bytes).map_err(io::Error::other)?;
    stream.write_all(&bytes)
}

pub(crate) fn read_frame<M: prost::Message + Default>(stream: &mut impl Read) -> io::Result<M> {
    let mut head = [0u8; 4];
    stream.read_exact(&mut head)?;
    let len = frame_len(head, LARGEST_FRAME)?;
    // memory grows with what has come, not with what is promised
    let mut bytes = Vec::new();
    stream.take(len as u64).read_to_end(&mut bytes)?;
    if bytes.len() < len {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    decode_frame(&bytes)
}

/// The message in the body of a frame.
pub(crate) fn decode_frame<M: prost::Message + Default>(bytes: &[u8]) -> io::Result<M> {
    M::decode(bytes).map_err(|error| invalid(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::super::ToManager;
    use super::*;

    #[test]
    fn a_frame_costs_the_memory_of_what_has_come_and_not_of_what_it_promises() {
        let mut wire = (1u32 << 30).to_le_bytes().to_vec();
        wire.extend_from_slice(b"and then nothing");
        let error = read_frame::<ToManager>(&mut wire.as_slice()).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::UnexpectedEof);
        let error = frame_len([0, 0, 0, 64], LARGEST_HELLO).unwrap_err();
        assert!(error.to_string().contains("at most 1024"), "{error}");
    }
}
