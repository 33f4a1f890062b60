//! Tests of the checker together with the connector: for every spelling of an address, the
//! connector connects to the approved address and to no other.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::atomic::{AtomicU32, Ordering};

use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::{Config, TestRunner};
use sortie_fetch::{Allow, Guard, Reach, Url, reach};

use crate::server::{Server, answer};
use crate::{Table, anybody, guard};

/// The number of random addresses and spellings that are checked without a socket.
const JUDGED: u32 = 20_000;
/// The number of those that are connected to.
const CONNECTED: u32 = 400;

/// Writes an IPv4 address in one of many forms that some program accepts.
fn spell(address: Ipv4Addr, style: u8, salt: u8) -> String {
    let [a, b, c, d] = address.octets();
    let whole = u32::from(address);
    match style % 14 {
        0 => address.to_string(),
        1 => whole.to_string(),
        2 => format!("0x{whole:x}"),
        3 => format!("0{whole:o}"),
        4 => format!("{a}.{}", whole & 0xff_ffff),
        5 => format!("{a}.{b}.{}", whole & 0xffff),
        6 => format!("0x{a:x}.0{b:o}.{c}.0X{d:X}"),
        7 => format!("{a}.{b}.{c}.{d}."),
        8 => format!("[::ffff:{address}]"),
        9 => format!("[::FFFF:{:x}:{:x}]", whole >> 16, whole & 0xffff),
        10 => format!("0{a:o}.0{b:o}.0{c:o}.0{d:o}"),
        11 => percent(&address.to_string(), salt),
        12 => address.to_string().chars().map(wide).collect(),
        _ => address.to_string().replace('.', "。"),
    }
}

/// Encodes some of the characters as `%xx`.
fn percent(text: &str, salt: u8) -> String {
    text.bytes()
        .enumerate()
        .map(|(at, byte)| match (salt >> (at % 8)) & 1 {
            1 => format!("%{byte:02x}"),
            _ => char::from(byte).to_string(),
        })
        .collect()
}

/// Returns the full-width form of a digit or dot.
fn wide(c: char) -> char {
    match c {
        '.' => '．',
        digit => char::from_u32(u32::from(digit) - u32::from('0') + u32::from('０')).unwrap(),
    }
}

fn spell_v6(address: Ipv6Addr, style: u8) -> String {
    let parts = address.segments().map(|part| format!("{part:04X}"));
    match style % 3 {
        0 => format!("[{address}]"),
        1 => format!("[{}]", parts.join(":")),
        _ => {
            let [.., high, low] = address.segments();
            let [a, b, c, d] = ((u32::from(high) << 16) | u32::from(low)).to_be_bytes();
            format!("[{}:{a}.{b}.{c}.{d}]", parts[..6].join(":"))
        }
    }
}

/// Generates addresses, most of them near a special range.
fn addresses() -> impl Strategy<Value = IpAddr> {
    let first = prop::sample::select(vec![
        0_u8, 1, 8, 10, 100, 127, 168, 169, 172, 192, 198, 203, 223, 224, 240, 255,
    ]);
    let v4 = prop_oneof![
        any::<u32>().prop_map(Ipv4Addr::from),
        (first, any::<[u8; 3]>()).prop_map(|(a, [b, c, d])| Ipv4Addr::new(a, b, c, d)),
    ];
    let prefix = prop::sample::select(vec![
        0_u128,
        0xffff << 32,
        0xffff_0000 << 32,
        0x64_ff9b << 96,
        0x64_ff9b_0001 << 80,
        0x2001 << 112,
        0x2001_0db8 << 96,
        0x2002 << 112,
        0x2606_4700 << 96,
        0x3fff << 112,
        0xfc00 << 112,
        0xfe80 << 112,
        0xff02 << 112,
    ]);
    let v6 = prop_oneof![
        any::<u128>().prop_map(Ipv6Addr::from),
        (prefix, any::<u32>()).prop_map(|(prefix, low)| Ipv6Addr::from(prefix | u128::from(low))),
        Just(Ipv6Addr::LOCALHOST),
    ];
    prop_oneof![v4.prop_map(IpAddr::from), v6.prop_map(IpAddr::from)]
}

/// Returns whether the standard library classifies an address as not public; independent of the
/// guard's table.
fn is_surely_not_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let [a, b, ..] = v4.octets();
            v4.is_loopback()
                || v4.is_private()
                || v4.is_link_local()
                || v4.is_broadcast()
                || v4.is_documentation()
                || v4.is_multicast()
                || a == 0
                || a >= 240
                || (a == 100 && (64..128).contains(&b))
        }
        IpAddr::V6(v6) => {
            let inner = v6.to_ipv4().or_else(|| {
                let [first, second, 0, 0, 0, 0, high, low] = v6.segments() else {
                    return None;
                };
                let low = (u32::from(high) << 16) | u32::from(low);
                ((first, second) == (0x64, 0xff9b)).then(|| Ipv4Addr::from(low))
            });
            v6.is_loopback()
                || v6.is_unspecified()
                || v6.is_multicast()
                || v6.is_unique_local()
                || v6.is_unicast_link_local()
                || matches!(v6.segments()[0], 0x2002 | 0xfec0)
                || inner.is_some_and(|v4| is_surely_not_public(v4.into()))
        }
    }
}

#[test]
fn the_checked_address_is_the_one_that_the_connector_parses() {
    let guard = Guard::new(Allow::default()).unwrap();
    let strategy = (addresses(), any::<u8>(), any::<u8>());
    let approved = AtomicU32::new(0);
    let mut runner = TestRunner::new(Config::with_cases(JUDGED));
    let result = runner.run(&strategy, |(address, style, salt)| {
        let host = match address {
            IpAddr::V4(v4) => spell(v4, style, salt),
            IpAddr::V6(v6) => spell_v6(v6, style),
        };
        let url = Url::parse(&format!("http://{host}/")).unwrap();
        let Ok(checked) = guard.check(&url) else {
            prop_assert_ne!(reach(address), Reach::Public, "{} was refused", host);
            return Ok(());
        };
        approved.fetch_add(1, Ordering::Relaxed);
        // The connector uses the host of the URL without brackets, as the standard library does.
        let host = checked.url().host_str().unwrap();
        let read: IpAddr = host.trim_matches(['[', ']']).parse().unwrap();
        prop_assert_eq!(read.to_canonical(), address.to_canonical());
        prop_assert!(!is_surely_not_public(read), "{} was approved", read);
        Ok(())
    });
    result.unwrap();
    // With fewer approved addresses the test would prove nothing.
    assert!(approved.into_inner() > JUDGED / 20);
}

#[tokio::test]
async fn the_approved_address_is_the_one_that_is_connected_to() {
    let server = Server::start(|_| answer(200, "", "")).await;
    let guard = guard(&[format!("127.1.0.0/16:{}", server.port)], Table::of(&[]));
    let strategy = (any::<[u8; 3]>(), any::<bool>(), any::<u8>(), any::<u8>());
    let mut runner = TestRunner::deterministic();
    let mut connected = 0;
    for _ in 0..CONNECTED {
        let ([b, c, d], inside, style, salt) = strategy.new_tree(&mut runner).unwrap().current();
        let address = Ipv4Addr::new(127, if inside { 1 } else { b }, c, d);
        let host = spell(address, style, salt);
        let url = Url::parse(&format!("http://{host}:{}/", server.port)).unwrap();
        let approved = address.octets()[1] == 1;
        // Network and broadcast addresses of a loopback network work like all others.
        let answer = guard.get(url, &anybody).await;
        assert_eq!(answer.is_ok(), approved, "{host}: {answer:?}");
        connected += usize::from(approved);
        let seen = server.seen();
        assert_eq!(seen.len(), connected, "{host}");
        if approved {
            let reached = seen[connected - 1].address.ip().to_canonical();
            assert_eq!(reached, IpAddr::from(address), "{host}");
        }
    }
    assert!(connected > CONNECTED as usize / 4);
}
