//! Which network peers a command can reach.

use std::net::TcpListener;
use std::os::unix::net::UnixListener;

use sortie_sandbox::{Backend, CommandRefusal, Network};

use crate::support::{OFFER, World, backends, with_namespaces};

/// Returns a small Python program; every machine that builds Sortie has Python.
fn python(body: &str) -> String {
    format!("/usr/bin/python3 -c '{body}'")
}

fn connect(port: u16) -> String {
    python(&format!(
        "import socket\nsocket.create_connection((\"127.0.0.1\", {port}), 5)\nprint(\"reached\")"
    ))
}

/// Checks that a script connects without a sandbox, and in no backend.
fn unreachable(world: &World, network: &Network, script: &str) {
    let (code, text) = world.bare(script);
    assert_eq!(
        (code, text.as_str()),
        (Some(0), "reached\n"),
        "the control of {script}"
    );
    for backend in backends() {
        if *network == Network::Loopback && backend == Backend::Landlock {
            continue;
        }
        let mut policy = world.policy();
        policy.network = network.clone();
        let answer = world.run(backend, &policy, script);
        assert_ne!(
            answer.code,
            Some(0),
            "{backend:?} {network:?} {script}: {answer:?}"
        );
        assert_ne!(
            answer.code,
            Some(125),
            "{backend:?} {network:?} {script}: {answer:?}"
        );
        assert!(!answer.text.contains("reached"), "{answer:?}");
    }
}

#[test]
fn no_host_is_reachable_without_a_network() {
    let world = World::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = connect(port);
    unreachable(&world, &Network::Off, &script);
    unreachable(&world, &Network::Loopback, &script);
    let udp = "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)\n\
        s.sendto(b\"x\", (\"127.0.0.1\", 9))\nprint(\"reached\")";
    unreachable(&world, &Network::Off, &python(udp));
    for family in ["AF_INET6", "AF_NETLINK", "AF_UNIX"] {
        let socket = format!(
            "import socket\nsocket.socket(socket.{family}, socket.SOCK_DGRAM)\nprint(\"reached\")"
        );
        unreachable(&world, &Network::Off, &python(&socket));
    }
}

#[test]
fn sockets_of_other_programs_are_never_reached() {
    let world = World::new();
    // A socket that the command can see, in its own workspace; socket paths must be short.
    let place = world.root().join("s");
    let _listener = UnixListener::bind(&place).unwrap();
    std::fs::rename(&place, world.workspace.join("s")).unwrap();
    let script = python(
        "import socket\ns = socket.socket(socket.AF_UNIX)\ns.connect(\"s\")\nprint(\"reached\")",
    );
    let hidden = "import socket\na, b = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)\n\
        print(\"reached\")";
    for network in [Network::Off, Network::Loopback, Network::On] {
        unreachable(&world, &network, &script);
        unreachable(&world, &network, &python(hidden));
    }
    let pair =
        python("import socket\na, b = socket.socketpair()\na.send(b\"x\")\nprint(b.recv(1))");
    for backend in backends() {
        let answer = world.run(backend, &world.policy(), &pair);
        assert_eq!(answer.code, Some(0), "{backend:?} {answer:?}");
    }
}

#[test]
fn a_loopback_of_its_own_works() {
    let world = World::new();
    let script = python(
        "import socket\ns = socket.create_server((\"127.0.0.1\", 0))\n\
         socket.create_connection(s.getsockname(), 5)\nprint(\"reached\")",
    );
    let mut policy = world.policy();
    policy.network = Network::Loopback;
    for backend in with_namespaces() {
        let answer = world.run(backend, &policy, &script);
        assert_eq!(answer.text, "reached\n", "{backend:?} {answer:?}");
    }
    let refusal = world.confine(Backend::Landlock, &policy, &script);
    if OFFER.landlock >= 3 {
        assert!(matches!(refusal.unwrap_err(), CommandRefusal::Network(_)));
    }
}

#[test]
fn only_the_ports_that_were_named_are_reached() {
    if OFFER.landlock < 4 {
        return;
    }
    let world = World::new();
    let listeners = [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").unwrap());
    let [allowed, other] = listeners
        .each_ref()
        .map(|one| one.local_addr().unwrap().port());
    let network = Network::Ports(vec![allowed]);
    unreachable(&world, &network, &connect(other));
    let fast = python(&format!(
        "import socket\ns = socket.socket()\n\
         s.sendto(b\"x\", socket.MSG_FASTOPEN, (\"127.0.0.1\", {other}))\nprint(\"reached\")"
    ));
    unreachable(&world, &network, &fast);
    let other_protocol = python(&format!(
        "import socket\ns = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)\n\
         s.connect((\"127.0.0.1\", {other}))\nprint(\"reached\")"
    ));
    if world.bare(&other_protocol).0 == Some(0) {
        unreachable(&world, &network, &other_protocol);
    }
    let mut policy = world.policy();
    policy.network = network;
    for backend in backends() {
        let answer = world.run(backend, &policy, &connect(allowed));
        assert_eq!(answer.text, "reached\n", "{backend:?} {answer:?}");
    }
}

#[test]
fn the_network_is_there_if_it_is_on() {
    let world = World::new();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut policy = world.policy();
    policy.network = Network::On;
    for backend in backends() {
        let confined = world.confine(backend, &policy, &connect(port)).unwrap();
        assert!(!confined.applied.not_held.is_empty());
        let answer = world.run(backend, &policy, &connect(port));
        assert_eq!(answer.text, "reached\n", "{backend:?} {answer:?}");
    }
}
