//! The loopback of a network of one's own: it is there, and down.

use std::io;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};

/// `RTM_NEWLINK`.
const NEW_LINK: u16 = 16;
/// `NLM_F_REQUEST` and `NLM_F_ACK`.
const REQUEST_AND_ANSWER: u16 = 1 | 4;
/// `IFF_UP`.
const UP: u32 = 1;
/// The loopback is the first interface of every network.
const FIRST_INTERFACE: u32 = 1;
/// A header of 16 bytes and `ifinfomsg` of 16.
const LENGTH: u32 = 32;
/// Where the answer carries its error number, behind its header.
const ERROR_AT: std::ops::Range<usize> = 16..20;

/// Starts it.
pub(super) fn start() -> io::Result<()> {
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        // The first of its protocols is the one of routes and interfaces.
        None,
    )?;
    let kernel = SocketAddrNetlink::new(0, 0);
    sendto(&socket, &request(), SendFlags::empty(), &kernel)?;
    let mut answer = [0_u8; 256];
    let (length, _) = recv(&socket, &mut answer[..], RecvFlags::empty())?;
    let error = answer[..length].get(ERROR_AT);
    let error = error.and_then(|bytes| bytes.try_into().ok());
    match error.map(i32::from_ne_bytes) {
        Some(0) => Ok(()),
        Some(number) => Err(io::Error::from_raw_os_error(-number)),
        None => Err(io::Error::other("the kernel gave no answer")),
    }
}

fn request() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(LENGTH as usize);
    bytes.extend(LENGTH.to_ne_bytes());
    bytes.extend(NEW_LINK.to_ne_bytes());
    bytes.extend(REQUEST_AND_ANSWER.to_ne_bytes());
    // The number of the request and that of the sender.
    bytes.extend([0; 8]);
    // Family, padding and type of the interface.
    bytes.extend([0; 4]);
    bytes.extend(FIRST_INTERFACE.to_ne_bytes());
    bytes.extend(UP.to_ne_bytes());
    bytes.extend(UP.to_ne_bytes());
    bytes
}
