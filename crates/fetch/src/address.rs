//! Classifies IP addresses. Public ranges are listed; everything else is not public.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use ipnet::{Ipv4Net, Ipv6Net};

/// The kind of network that an address belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reach {
    Public,
    /// Addresses of this machine.
    Loopback,
    /// A private network: RFC 1918, shared (carrier and overlay) space, unique-local.
    Private,
    /// The local link, where clouds serve metadata and credentials.
    LinkLocal,
    /// Multicast, documentation, tunnels, and other ranges that no web server uses.
    Reserved,
}

impl fmt::Display for Reach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public => "public",
            Self::Loopback => "on this machine",
            Self::Private => "on a private network",
            Self::LinkLocal => "link-local",
            Self::Reserved => "reserved",
        })
    }
}

const fn v4(a: u8, b: u8, c: u8, d: u8, bits: u8) -> Ipv4Net {
    Ipv4Net::new_assert(Ipv4Addr::new(a, b, c, d), bits)
}

const fn v6(a: u16, b: u16, c: u16, bits: u8) -> Ipv6Net {
    Ipv6Net::new_assert(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0), bits)
}

/// The special-purpose networks of IPv4, from the IANA registry.
const SPECIAL_V4: [(Ipv4Net, Reach); 17] = [
    (v4(0, 0, 0, 0, 8), Reach::Reserved),
    (v4(10, 0, 0, 0, 8), Reach::Private),
    (v4(100, 64, 0, 0, 10), Reach::Private),
    (v4(127, 0, 0, 0, 8), Reach::Loopback),
    // A public address, but the metadata server of every machine in one large cloud.
    (v4(168, 63, 129, 16, 32), Reach::LinkLocal),
    (v4(169, 254, 0, 0, 16), Reach::LinkLocal),
    (v4(172, 16, 0, 0, 12), Reach::Private),
    (v4(192, 0, 0, 0, 24), Reach::Reserved),
    (v4(192, 0, 2, 0, 24), Reach::Reserved),
    (v4(192, 31, 196, 0, 24), Reach::Reserved),
    (v4(192, 52, 193, 0, 24), Reach::Reserved),
    (v4(192, 88, 99, 0, 24), Reach::Reserved),
    (v4(192, 168, 0, 0, 16), Reach::Private),
    (v4(198, 18, 0, 0, 15), Reach::Reserved),
    (v4(198, 51, 100, 0, 24), Reach::Reserved),
    (v4(203, 0, 113, 0, 24), Reach::Reserved),
    // 224/4 and 240/4.
    (v4(224, 0, 0, 0, 3), Reach::Reserved),
];

/// The special-purpose networks of IPv6, outside of the global range or inside it.
const SPECIAL_V6: [(Ipv6Net, Reach); 8] = [
    // Local NAT64 reaches what the local network translates.
    (v6(0x64, 0xff9b, 1, 48), Reach::Private),
    (v6(0xfc00, 0, 0, 7), Reach::Private),
    (v6(0xfe80, 0, 0, 10), Reach::LinkLocal),
    // Protocol assignments, Teredo and ORCHID among them.
    (v6(0x2001, 0, 0, 23), Reach::Reserved),
    (v6(0x2001, 0xdb8, 0, 32), Reach::Reserved),
    // 6to4 embeds an IPv4 address; the relay may interpret it differently from this code.
    (v6(0x2002, 0, 0, 16), Reach::Reserved),
    (v6(0x2620, 0x4f, 0x8000, 48), Reach::Reserved),
    (v6(0x3fff, 0, 0, 20), Reach::Reserved),
];
/// The only IPv6 range that is allocated to users.
const GLOBAL_V6: Ipv6Net = v6(0x2000, 0, 0, 3);
/// NAT64: networks without IPv4 reach IPv4 hosts through this prefix; the last four bytes are the IPv4 address.
const NAT64: Ipv6Net = v6(0x64, 0xff9b, 0, 96);

/// Classifies an address in any notation.
pub fn reach(address: IpAddr) -> Reach {
    match address.to_canonical() {
        IpAddr::V4(address) => reach_v4(address),
        IpAddr::V6(address) => reach_v6(address),
    }
}

fn reach_v4(address: Ipv4Addr) -> Reach {
    SPECIAL_V4
        .iter()
        .find(|(network, _)| network.contains(&address))
        .map_or(Reach::Public, |(_, reach)| *reach)
}

fn reach_v6(address: Ipv6Addr) -> Reach {
    if address == Ipv6Addr::LOCALHOST {
        return Reach::Loopback;
    }
    if NAT64.contains(&address) {
        return reach_v4(embedded(address));
    }
    let special = SPECIAL_V6
        .iter()
        .find(|(network, _)| network.contains(&address));
    match special {
        Some((_, reach)) => *reach,
        None if GLOBAL_V6.contains(&address) => Reach::Public,
        None => Reach::Reserved,
    }
}

/// Returns the IPv4 address in the last four bytes.
fn embedded(address: Ipv6Addr) -> Ipv4Addr {
    let [.., a, b, c, d] = address.octets();
    Ipv4Addr::new(a, b, c, d)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(expected: Reach, addresses: &[&str]) {
        for address in addresses {
            let parsed: IpAddr = address.parse().unwrap();
            assert_eq!(reach(parsed), expected, "{address}");
        }
    }

    #[test]
    fn public_addresses() {
        check(
            Reach::Public,
            &[
                "1.1.1.1",
                "8.8.8.8",
                "9.255.255.255",
                "11.0.0.0",
                "100.63.255.255",
                "100.128.0.0",
                "126.255.255.255",
                "128.0.0.0",
                "169.253.255.255",
                "172.15.255.255",
                "172.32.0.0",
                "192.0.1.0",
                "192.167.255.255",
                "198.17.255.255",
                "198.20.0.0",
                "223.255.255.255",
                "2606:4700:4700::1111",
                "2a00:1450:4001:81b::200e",
                "2001:200::1",
                "2001:4860:4860::8888",
                "::ffff:8.8.8.8",
                "64:ff9b::8.8.8.8",
            ],
        );
    }

    #[test]
    fn loopback_addresses() {
        check(
            Reach::Loopback,
            &[
                "127.0.0.1",
                "127.255.255.255",
                "::1",
                "::ffff:127.0.0.1",
                "64:ff9b::127.0.0.1",
            ],
        );
    }

    #[test]
    fn private_and_link_local_addresses() {
        check(
            Reach::Private,
            &[
                "10.0.0.1",
                "172.16.0.1",
                "172.31.255.255",
                "192.168.0.1",
                "100.64.0.1",
                "100.100.100.200",
                "fc00::1",
                "fd00:ec2::254",
                "::ffff:10.0.0.1",
                "64:ff9b::192.168.1.1",
                "64:ff9b:1::1",
            ],
        );
        check(
            Reach::LinkLocal,
            &[
                "169.254.169.254",
                "168.63.129.16",
                "fe80::1",
                "febf::1",
                "::ffff:169.254.169.254",
                "64:ff9b::a9fe:a9fe",
            ],
        );
    }

    #[test]
    fn reserved_addresses() {
        check(
            Reach::Reserved,
            &[
                "0.0.0.0",
                "0.1.2.3",
                "192.0.0.192",
                "192.0.2.1",
                "192.88.99.1",
                "198.18.0.1",
                "198.19.255.255",
                "198.51.100.1",
                "203.0.113.1",
                "224.0.0.1",
                "239.255.255.255",
                "240.0.0.1",
                "255.255.255.255",
                "::",
                "::2",
                "::127.0.0.1",
                "::ffff:0:0",
                "::ffff:0:127.0.0.1",
                "100::1",
                "2001::1",
                "2001:0:4136:e378:8000:63bf:3fff:fdd2",
                "2001:10::1",
                "2001:db8::1",
                "2002:7f00:1::",
                "2002:808:808::1",
                "3fff::1",
                "4000::1",
                "5f00::1",
                "fec0::1",
                "ff02::1",
                "64:ff9b::0.0.0.0",
                "64:ff9b::1:127.0.0.1",
            ],
        );
    }
}
