//! A small HTTP/1.1 client: one connection that stays open, so that a thousand requests a second
//! cost this side little.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long a response may take before it counts as missing.
const PATIENCE: Duration = Duration::from_secs(30);
const MAX_BODY_BYTES: usize = 64 * 1024 * 1024;

/// The address of a server, and the token that it accepts.
#[derive(Clone)]
pub struct Address {
    /// Address of the server, as `127.0.0.1:port`.
    pub host: String,
    pub token: String,
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.host)
    }
}

#[derive(Debug)]
pub struct Http {
    stream: BufReader<TcpStream>,
    address: Address,
}

impl Http {
    pub async fn connect(address: &Address) -> Result<Self> {
        let stream = timeout(PATIENCE, TcpStream::connect(&address.host))
            .await
            .context("connecting takes too long")?
            .context("connect")?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::with_capacity(16 * 1024, stream),
            address: address.clone(),
        })
    }

    /// Sends a request and reads the whole response.
    pub async fn send(&mut self, line: &str, body: Option<&Value>) -> Result<(u16, Vec<u8>)> {
        self.send_accepting("application/json", line, body).await
    }

    /// Sends a request that accepts a media type and reads the whole response, also a stream.
    pub async fn send_accepting(
        &mut self,
        accept: &str,
        line: &str,
        body: Option<&Value>,
    ) -> Result<(u16, Vec<u8>)> {
        timeout(PATIENCE, self.exchange(accept, line, body))
            .await
            .with_context(|| format!("{line}: no answer in time"))?
            .with_context(|| line.to_owned())
    }

    /// Requests JSON; fails unless the status is a success.
    pub async fn json(&mut self, line: &str, body: Option<&Value>) -> Result<Value> {
        let (status, bytes) = self.send(line, body).await?;
        ensure!(
            (200..300).contains(&status),
            "{line}: {status} {}",
            String::from_utf8_lossy(&bytes)
        );
        serde_json::from_slice(&bytes).with_context(|| format!("{line}: the answer is not JSON"))
    }

    async fn exchange(
        &mut self,
        accept: &str,
        line: &str,
        body: Option<&Value>,
    ) -> Result<(u16, Vec<u8>)> {
        let Address { host, token } = &self.address;
        let mut request = format!(
            "{line} HTTP/1.1\r\nhost: {host}\r\nauthorization: Bearer {token}\r\naccept: {accept}\r\n"
        );
        let body = body.map(Value::to_string);
        if let Some(body) = &body {
            request += "content-type: application/json\r\n";
            request += &format!("content-length: {}\r\n", body.len());
        }
        request += "\r\n";
        request += body.as_deref().unwrap_or_default();
        self.stream.get_mut().write_all(request.as_bytes()).await?;
        self.answer().await
    }

    async fn answer(&mut self) -> Result<(u16, Vec<u8>)> {
        let first = self.line().await?;
        let status = first.split(' ').nth(1).and_then(|word| word.parse().ok());
        let status: u16 = status.with_context(|| format!("not an answer: {first:?}"))?;
        let mut length = 0;
        let mut chunked = false;
        loop {
            let line = self.line().await?;
            let Some((name, value)) = line.split_once(':') else {
                break;
            };
            match name.to_ascii_lowercase().as_str() {
                "content-length" => length = value.trim().parse().context("content-length")?,
                "transfer-encoding" => chunked = true,
                _ => {}
            }
        }
        let body = if chunked {
            self.chunks().await?
        } else {
            self.bytes(length).await?
        };
        Ok((status, body))
    }

    async fn chunks(&mut self) -> Result<Vec<u8>> {
        let mut body = Vec::new();
        loop {
            let line = self.line().await?;
            let length = usize::from_str_radix(&line, 16).context("the length of a chunk")?;
            body.extend(self.bytes(length).await?);
            ensure!(body.len() <= MAX_BODY_BYTES, "the answer is too long");
            self.line().await?;
            if length == 0 {
                return Ok(body);
            }
        }
    }

    async fn bytes(&mut self, length: usize) -> Result<Vec<u8>> {
        ensure!(length <= MAX_BODY_BYTES, "the answer is too long");
        let mut bytes = vec![0; length];
        self.stream.read_exact(&mut bytes).await?;
        Ok(bytes)
    }

    async fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line).await? == 0 {
            bail!("the server closed the connection");
        }
        Ok(line.trim_end().to_owned())
    }
}
