//! The HTTP client from which every outbound request starts.
//!
//! All clients share one TLS configuration, which reads the root certificates of the machine at the
//! first TLS handshake: a program that only talks to a server on loopback never reads them, and
//! starts without any.

use std::sync::OnceLock;

use reqwest::{ClientBuilder, redirect};
use rustls::ClientConfig;

use crate::tls::{self, Roots, Verification};

/// Protocols that a client offers in the TLS handshake, in order of preference.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Returns a builder for a client that follows no redirects, sends no referer, uses no proxy and
/// reads nothing from the environment. A redirect would send the caller's key to a host that is not
/// configured.
pub fn client() -> ClientBuilder {
    let builder = reqwest::Client::builder()
        .no_proxy()
        .redirect(redirect::Policy::none())
        .referer(false)
        .user_agent(concat!("sortie/", env!("CARGO_PKG_VERSION")));
    match shared_tls() {
        Some(tls) => builder.tls_backend_preconfigured(tls),
        // `build` reports that there is no TLS; ring supports every version, so this is unreachable.
        None => builder,
    }
}

/// Returns the shared configuration; copies of it share one cache of TLS sessions.
fn shared_tls() -> Option<ClientConfig> {
    static SHARED: OnceLock<Option<ClientConfig>> = OnceLock::new();
    let made = SHARED.get_or_init(|| {
        let verification = Verification::Name(Roots::Machine);
        tls::client_config(&verification, &PROTOCOLS).ok()
    });
    made.clone()
}

#[cfg(test)]
mod tests {
    use std::io::{self, Read as _, Write as _};
    use std::net::TcpListener;
    use std::path::Path;
    use std::process::{Command, Stdio};
    use std::sync::Arc;
    use std::thread;

    use rustls::pki_types::pem::PemObject as _;
    use rustls::pki_types::{CertificateDer, PrivateKeyDer};
    use rustls::{ServerConfig, ServerConnection, Stream};

    use super::*;
    use crate::tls::PROVIDER;

    const CERTIFICATE: &[u8] = include_bytes!("../tests/tls/localhost.pem");
    const KEY: &[u8] = include_bytes!("../tests/tls/localhost.key");
    const RESPONSE: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";

    /// Serves one response for each connection, over TLS or in plain text; returns the port.
    fn serve(tls: Option<Arc<ServerConfig>>) -> u16 {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        thread::spawn(move || {
            for socket in listener.incoming() {
                let mut socket = socket.expect("a connection");
                let mut request = [0; 4096];
                // A client that rejects the certificate ends the connection: both calls fail then.
                let served = match &tls {
                    None => socket
                        .read(&mut request)
                        .and_then(|_| socket.write_all(RESPONSE)),
                    Some(config) => {
                        let made = ServerConnection::new(Arc::clone(config));
                        let mut connection = made.expect("a connection");
                        let mut stream = Stream::new(&mut connection, &mut socket);
                        stream
                            .read(&mut request)
                            .and_then(|_| stream.write_all(RESPONSE))
                    }
                };
                drop(served);
            }
        });
        port
    }

    fn server_config() -> Arc<ServerConfig> {
        let certificate = CertificateDer::from_pem_slice(CERTIFICATE).expect("a certificate");
        let key = PrivateKeyDer::from_pem_slice(KEY).expect("a key");
        let config = ServerConfig::builder_with_provider(Arc::clone(&PROVIDER))
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![certificate], key);
        Arc::new(config.expect("a configuration"))
    }

    /// The child process of the test below: the URL comes from its input, the root certificates from its
    /// environment.
    #[test]
    #[ignore = "a helper process of the other test"]
    fn fetch_for_the_other_test() {
        let mut url = String::new();
        io::stdin().read_to_string(&mut url).expect("a URL");
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .expect("a runtime");
        let client = client().build().expect("a client");
        match runtime.block_on(client.get(url).send()) {
            Ok(response) => println!("outcome: {}", response.status()),
            Err(error) => println!("outcome: {error:?}"),
        }
    }

    #[test]
    fn only_certificates_of_a_known_root_are_accepted_and_plain_http_needs_none() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/tls");
        let secure = format!("https://localhost:{}/", serve(Some(server_config())));
        let plain = format!("http://localhost:{}/", serve(None));
        let check = |roots: &str, url: &str, expected: &str| {
            let mut child = Command::new(std::env::current_exe().expect("this program"))
                .args(["--exact", "http::tests::fetch_for_the_other_test"])
                .args(["--ignored", "--nocapture"])
                .env("SSL_CERT_FILE", folder.join(roots))
                .env("SSL_CERT_DIR", folder.join("none"))
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .expect("a child");
            let mut input = child.stdin.take().expect("its input");
            input.write_all(url.as_bytes()).expect("written");
            drop(input);
            let output = child.wait_with_output().expect("its output");
            let output = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(output.contains(expected), "{roots} {url}: {output}");
        };
        check("ca.pem", &secure, "outcome: 200");
        check("other.pem", &secure, "UnknownIssuer");
        check("none", &secure, "No CA certificates were loaded");
        check("none", &plain, "outcome: 200");
    }
}
