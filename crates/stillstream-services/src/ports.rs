//! Free ports.

use std::net::TcpListener;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::error::{Error, Result};

/// Ports below those that the system gives to outgoing connections: one that a server leaves for a restart is
/// not taken by a client meanwhile.
const RANGE: std::ops::Range<u32> = 18_000..32_000;

/// Where this program looks next.
static NEXT: AtomicU32 = AtomicU32::new(0);

/// `N` ports of 127.0.0.1 on which nobody listens. Programs begin to look at different places.
pub(crate) fn free<const N: usize>() -> Result<[u16; N]> {
    let length = RANGE.end - RANGE.start;
    let start = std::process::id().wrapping_mul(97) % length;
    let mut ports = Vec::with_capacity(N);
    for _ in 0..length {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = (RANGE.start + (start + step) % length) as u16;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            ports.push(port);
        }
        if let Ok(ports) = <[u16; N]>::try_from(ports.as_slice()) {
            return Ok(ports);
        }
    }
    Err(Error::new(format!("127.0.0.1 has no {N} free ports between {} and {}", RANGE.start, RANGE.end)))
}
