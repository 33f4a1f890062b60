//! Tests of the decisions that depend on the text of a URL only.

use sortie_fetch::{Allow, Guard, Url};

use crate::allow;

fn check_with(allow: Allow, cases: &[(&str, &str)]) {
    let guard = Guard::new(allow).unwrap();
    for (url, expected) in cases {
        let parsed = Url::parse(url).unwrap();
        let shown = match guard.check(&parsed) {
            Ok(checked) => checked.url().to_string(),
            Err(refused) => {
                let sentence = refused.to_string();
                let first = sentence.split(['.', ',']).next().unwrap();
                // Addresses contain dots themselves.
                let whole = sentence.split(". ").next().unwrap();
                format!("! {}", if first.len() > 30 { first } else { whole })
            }
        };
        assert_eq!(shown, *expected, "{url}");
    }
}

#[test]
fn the_public_web_is_reachable() {
    check_with(
        Allow::default(),
        &[
            ("https://example.org", "https://example.org/"),
            ("http://example.org:80/a?b#c", "http://example.org/a?b"),
            ("http://example.org:443/", "http://example.org:443/"),
            ("HTTPS://EXAMPLE.org./x", "https://example.org/x"),
            ("https://bücher.example/", "https://xn--bcher-kva.example/"),
            ("https://1.1.1.1/", "https://1.1.1.1/"),
            ("https://16843009/", "https://1.1.1.1/"),
            (
                "https://[2606:4700:4700::1111]/",
                "https://[2606:4700:4700::1111]/",
            ),
            ("https://my_host.example/", "https://my_host.example/"),
            ("https://ｅｘａｍｐｌｅ.org/", "https://example.org/"),
        ],
    );
}

#[test]
fn other_schemes_are_refused() {
    let refused = [
        ("file:///etc/passwd", "file: addresses are not fetched"),
        ("gopher://example.org/", "gopher: addresses are not fetched"),
        ("data:text/plain,x", "data: addresses are not fetched"),
        ("ftp://example.org/", "ftp: addresses are not fetched"),
        (
            "javascript:alert(1)",
            "javascript: addresses are not fetched",
        ),
    ];
    for (url, expected) in refused {
        check_with(Allow::default(), &[(url, &format!("! {expected}"))]);
    }
    let guard = Guard::new(Allow::default()).unwrap();
    for url in [
        "http://127.0.0.1/",
        "http://127.1/",
        "http://0x7f.1/",
        "http://0177.0.0.1/",
        "http://2130706433/",
        "http://0x7f000001/",
        "http://127.0.0.1./",
        "http://１２７.0.0.1/",
        "http://%31%32%37.0.0.1/",
        "http://127。0。0。1/",
        "http://0/",
        "http://[::]/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        "http://[::ffff:7f00:1]/",
        "http://[::127.0.0.1]/",
        "http://[64:ff9b::7f00:1]/",
        "http://[2002:7f00:1::]/",
        "http://[2001::1]/",
        "http://[fe80::1]/",
        "http://[fc00::1]/",
        "http://169.254.169.254/latest/meta-data/",
        "http://168.63.129.16/",
        "http://10.0.0.1/",
        "http://100.64.0.1/",
        "http://192.0.0.192/",
        "http://198.18.0.1/",
        "http://224.0.0.1/",
        "http://255.255.255.255/",
        "http://user@example.org/",
        "http://:secret@example.org/",
        "http://1.1.1.1@example.org/",
        "http://example.org:22/",
        "http://1.1.1.1:8080/",
        "http://a..example.org/",
        "http://.example.org/",
        "http://example.org../",
        "http://!$&'()*+,;=.example.org/",
    ] {
        let parsed = Url::parse(url).unwrap();
        guard.check(&parsed).expect_err(url);
    }
    let label = format!("http://{}.example/", "a".repeat(64));
    let name = format!("http://{}example/", "a.".repeat(130));
    let long = format!(
        "http://example.org/{}",
        "a".repeat(sortie_fetch::MAX_URL_BYTES)
    );
    for url in [label, name, long] {
        guard.check(&Url::parse(&url).unwrap()).expect_err(&url);
    }
}

#[test]
fn a_refused_request_names_the_remedy_and_no_secret() {
    let guard = Guard::new(Allow::default()).unwrap();
    let check = |url: &str, expected: &str| {
        let refused = guard.check(&Url::parse(url).unwrap()).unwrap_err();
        assert_eq!(refused.to_string(), expected);
    };
    check(
        "http://2130706433/?key=hunter2",
        "127.0.0.1 resolves to 127.0.0.1, which is on this machine; only the public internet is reachable. Use another source, or ask the operator to allow 127.0.0.1",
    );
    check(
        "http://me:hunter2@example.org/",
        "The URL for example.org contains a user name. Remove everything up to the @",
    );
    check(
        "http://example.org:22/",
        "Port 22 of example.org is not allowed for this tool. Use the standard port, or ask the operator to allow example.org:22",
    );
}

#[test]
fn rules_open_what_they_name() {
    let rules = [
        "127.0.0.1:8080",
        "10.1.0.0/16",
        "[fd00::1]:99",
        "localhost:3000",
        "*.example.org:8443",
        "*:9443",
    ];
    let guard = Guard::new(allow(&rules.map(str::to_owned))).unwrap();
    for (url, open) in [
        ("http://127.0.0.1:8080/", true),
        ("http://0x7f.1:8080/", true),
        ("http://[::ffff:127.0.0.1]:8080/", true),
        ("http://127.0.0.1/", false),
        ("http://127.0.0.2:8080/", false),
        ("http://10.1.2.3/", true),
        ("https://10.1.2.3/", true),
        ("http://10.1.2.3:8080/", false),
        ("http://10.2.0.1/", false),
        ("http://[fd00::1]:99/", true),
        ("http://[fd00::2]:99/", false),
        ("http://localhost:3000/", true),
        ("http://LOCALHOST.:3000/", true),
        // Only the exact rule applies to that name.
        ("http://localhost/", false),
        ("http://localhost:9443/", false),
        ("https://a.example.org:8443/", true),
        ("https://a.example.org/", true),
        ("https://example.org:8443/", false),
        ("https://evilexample.org:8443/", false),
        ("https://example.com:9443/", true),
        ("https://1.1.1.1:9443/", true),
        ("https://192.168.0.1:9443/", false),
    ] {
        let checked = guard.check(&Url::parse(url).unwrap());
        assert_eq!(checked.is_ok(), open, "{url}: {checked:?}");
    }
}

#[test]
fn whole_classes_are_opened_by_the_operator_only() {
    let open = |allow: Allow, url: &str| {
        let guard = Guard::new(allow).unwrap();
        guard.check(&Url::parse(url).unwrap()).is_ok()
    };
    let loopback = Allow {
        loopback: true,
        ..Allow::default()
    };
    let private = Allow {
        private: true,
        ..Allow::default()
    };
    for (url, by_loopback, by_private) in [
        ("http://127.0.0.1/", true, false),
        ("http://[::1]/", true, false),
        ("http://127.0.0.1:8080/", false, false),
        ("http://10.0.0.1/", false, true),
        ("http://[fd00::1]/", false, true),
        ("http://169.254.169.254/", false, false),
        ("http://0.0.0.0/", false, false),
    ] {
        assert_eq!(open(loopback.clone(), url), by_loopback, "{url}");
        assert_eq!(open(private.clone(), url), by_private, "{url}");
    }
}
