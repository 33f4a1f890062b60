//! TLS between a session and a PostgreSQL server.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use postgres::Socket;
use postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use sortie_base::tls::{TlsError, Verification, client_config};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::sql::target::CONNECT_TIMEOUT;

/// The protocol in the handshake; servers from version 17 on check it.
const PROTOCOL: &[u8] = b"postgresql";

/// Makes TLS connections.
#[derive(Clone)]
pub(crate) struct Tls {
    /// `None` if TLS is switched off.
    connector: Option<TlsConnector>,
}

impl Tls {
    /// Reads the root certificates, so that a session sees those that were replaced.
    pub(crate) fn new(verification: Option<&Verification>) -> Result<Self, TlsError> {
        let config = verification.map(|verification| client_config(verification, &[PROTOCOL]));
        let connector = config.transpose()?.map(Arc::new).map(TlsConnector::from);
        Ok(Self { connector })
    }
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls")
    }
}

impl MakeTlsConnect<Socket> for Tls {
    type Stream = EncryptedSocket;
    type TlsConnect = Handshake;
    type Error = io::Error;

    /// Is called for every connection, also for those that will not use TLS.
    fn make_tls_connect(&mut self, host: &str) -> io::Result<Handshake> {
        Ok(Handshake {
            connector: self.connector.clone(),
            host: host.to_owned(),
        })
    }
}

/// A handshake that has not begun.
pub(crate) struct Handshake {
    connector: Option<TlsConnector>,
    host: String,
}

impl TlsConnect<Socket> for Handshake {
    type Stream = EncryptedSocket;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<EncryptedSocket>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            let off = || io::Error::other("TLS is switched off");
            let connector = self.connector.ok_or_else(off)?;
            let name = ServerName::try_from(self.host).map_err(io::Error::other)?;
            let handshake = connector.connect(name, socket);
            let stream = tokio::time::timeout(CONNECT_TIMEOUT, handshake).await??;
            Ok(EncryptedSocket(stream))
        })
    }
}

/// A socket with TLS.
pub(crate) struct EncryptedSocket(tokio_rustls::client::TlsStream<Socket>);

impl TlsStream for EncryptedSocket {
    /// Returns nothing: the certificate is checked instead.
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for EncryptedSocket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl AsyncWrite for EncryptedSocket {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
