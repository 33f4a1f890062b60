//! Brings up the loopback interface of a new network namespace, which is down at first.

use std::io;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};

/// `RTM_NEWLINK` of the kernel's `rtnetlink.h`.
const NEW_LINK: u16 = 16;
/// The flags `NLM_F_REQUEST` and `NLM_F_ACK`.
const REQUEST_AND_ANSWER: u16 = 1 | 4;
/// `IFF_UP` of the kernel's `if.h`.
const UP: u32 = 1;
/// The loopback is the first interface of every network namespace.
const FIRST_INTERFACE: u32 = 1;
/// A header of 16 bytes and an `ifinfomsg` of 16.
const LENGTH: u32 = 32;
/// The position of the error number in the reply, behind its header.
const ERROR_AT: std::ops::Range<usize> = 16..20;

/// Brings the interface up.
pub(super) fn start() -> io::Result<()> {
    let socket = socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        // Protocol 0 of netlink is the one for routes and interfaces.
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
        None => Err(io::Error::other("the kernel did not respond")),
    }
}

fn request() -> Vec<u8> {
    let mut bytes = Vec::with_capacity(LENGTH as usize);
    bytes.extend(LENGTH.to_ne_bytes());
    bytes.extend(NEW_LINK.to_ne_bytes());
    bytes.extend(REQUEST_AND_ANSWER.to_ne_bytes());
    // The sequence number and the sender's id.
    bytes.extend([0; 8]);
    // The family, the padding and the type of the interface.
    bytes.extend([0; 4]);
    bytes.extend(FIRST_INTERFACE.to_ne_bytes());
    bytes.extend(UP.to_ne_bytes());
    bytes.extend(UP.to_ne_bytes());
    bytes
}
