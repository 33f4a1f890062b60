//! Reads the body of a response within limits.

use std::time::Duration;

use tokio::time::{Instant, timeout, timeout_at};

use crate::follow::{Response, transport};
use crate::problem::NetError;

/// Limits for reading a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BodyLimits {
    /// Maximum number of bytes.
    pub max_bytes: usize,
    /// Maximum time between two chunks.
    pub idle: Duration,
    /// Maximum time in total: a server can send slowly without ever pausing.
    pub total: Duration,
}

/// The part of a body that was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Body {
    pub bytes: Vec<u8>,
    /// Whether the body was longer than the limit.
    pub cut: bool,
}

impl Response {
    /// Reads the beginning of the body, up to the limit.
    pub async fn head(mut self, limits: BodyLimits) -> Result<Body, NetError> {
        let deadline = Instant::now() + limits.total;
        let mut bytes = Vec::new();
        while let Some(piece) = self.piece(limits.idle, deadline).await? {
            let room = limits.max_bytes - bytes.len();
            if piece.len() > room {
                bytes.extend_from_slice(&piece[..room]);
                return Ok(Body { bytes, cut: true });
            }
            bytes.extend_from_slice(&piece);
        }
        Ok(Body { bytes, cut: false })
    }

    /// Reads the whole body; a body larger than the limit is an error.
    pub async fn whole(self, limits: BodyLimits) -> Result<Vec<u8>, NetError> {
        let host = self.host().to_owned();
        let too_large = || NetError::TooLarge {
            host: host.clone(),
            max_bytes: limits.max_bytes,
        };
        let announced = self.content_length().unwrap_or_default();
        if usize::try_from(announced).is_ok_and(|length| length > limits.max_bytes) {
            return Err(too_large());
        }
        let body = self.head(limits).await?;
        if body.cut {
            return Err(too_large());
        }
        Ok(body.bytes)
    }

    async fn piece(
        &mut self,
        idle: Duration,
        deadline: Instant,
    ) -> Result<Option<bytes::Bytes>, NetError> {
        let host = self.host().to_owned();
        let next = timeout(idle, self.inner_mut().chunk());
        match timeout_at(deadline, next).await {
            Ok(Ok(piece)) => piece.map_err(|error| transport(&host, error)),
            Ok(Err(_)) | Err(_) => Err(NetError::TimedOut { host }),
        }
    }
}
