//! Pages of lists, limited in bytes too: the texts of tasks and tools may be long. A response that
//! has to end early names the start of the next page.

use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use bytes::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sortie_runtime::RuntimeError;

use crate::problem::{self, Problem};

/// The size at which a page ends before its limit. A client that reads slowly occupies this much
/// memory.
pub(crate) const PAGE_BYTES: usize = 8 * 1024 * 1024;
/// The header with the start of the next page.
pub(crate) const NEXT_CURSOR: HeaderName = HeaderName::from_static("sortie-next-cursor");

/// The size of the first batch: the length of the texts is not known yet.
const FIRST_BATCH: u32 = 20;
const MAX_BATCH: u32 = 320;
/// A batch with less text than this may be followed by a larger one.
const MODEST_BYTES: usize = 1024 * 1024;

/// A list as JSON, limited in bytes.
#[derive(Debug)]
pub(crate) struct Page {
    body: Vec<u8>,
    headers: HeaderMap,
}

impl Default for Page {
    fn default() -> Self {
        Self {
            body: vec![b'['],
            headers: HeaderMap::new(),
        }
    }
}

impl Page {
    /// Adds all of these items or none. Returns `false` if they belong to the next page. The first
    /// items always fit, or a long item would be on no page.
    pub(crate) fn take<T: Serialize>(&mut self, items: &[T]) -> Result<bool, Problem> {
        let before = self.body.len();
        let is_first = before == 1;
        for item in items {
            if self.body.len() > 1 {
                self.body.push(b',');
            }
            serde_json::to_writer(&mut self.body, item)
                .map_err(|error| problem::internal(&error))?;
        }
        let fits = is_first || self.body.len() < PAGE_BYTES;
        if !fits {
            self.body.truncate(before);
        }
        Ok(fits)
    }

    /// Sets the cursor and address of the next page.
    pub(crate) fn set_next(&mut self, cursor: &str, address: &str) -> Result<(), Problem> {
        let value = |text: &str| {
            HeaderValue::from_str(text)
                .map_err(|_| Problem::bad("the query cannot be repeated in a `Link` header"))
        };
        let link = value(&format!("<{address}>; rel=\"next\""))?;
        self.headers.insert(header::LINK, link);
        self.headers.insert(NEXT_CURSOR, value(cursor)?);
        Ok(())
    }
}

impl IntoResponse for Page {
    fn into_response(mut self) -> Response {
        self.body.push(b']');
        let kind = HeaderValue::from_static("application/json");
        self.headers.insert(header::CONTENT_TYPE, kind);
        (self.headers, Bytes::from(self.body)).into_response()
    }
}

/// One item of a list.
pub(crate) struct Shown<T> {
    /// The item as the response has it; `None` if it does not belong to the list.
    pub(crate) item: Option<T>,
    /// The bytes of text that were read for it.
    pub(crate) bytes: usize,
}

impl<T: Serialize> Shown<T> {
    /// Creates an item that is returned as it was read.
    pub(crate) fn whole(item: T) -> Result<Self, Problem> {
        let bytes = size(&item)?;
        Ok(Self {
            item: Some(item),
            bytes,
        })
    }
}

/// Reads items in batches until the page is full. Returns the position after which there are more.
/// `read` returns at most so many items after a position.
pub(crate) async fn fill<T, S: Serialize, P: Clone, F>(
    limit: u32,
    first: Option<P>,
    mut read: impl FnMut(Option<P>, u32) -> F,
    place: impl Fn(&T) -> P,
    show: impl Fn(&T) -> Result<Shown<S>, Problem>,
) -> Result<(Page, Option<P>), Problem>
where
    F: Future<Output = Result<Vec<T>, RuntimeError>>,
{
    let mut page = Page::default();
    let mut left = limit;
    let mut batch = FIRST_BATCH;
    let mut last = first;
    loop {
        // One more than fits shows whether there are more.
        let wanted = batch.min(left.saturating_add(1));
        let things = read(last.clone(), wanted).await?;
        let mut bytes = 0;
        for thing in &things {
            let shown = show(thing)?;
            bytes += shown.bytes;
            if let Some(item) = shown.item {
                if left == 0 || !page.take(&[item])? {
                    return Ok((page, last));
                }
                left -= 1;
            }
            last = Some(place(thing));
        }
        if things.len() < wanted as usize {
            return Ok((page, None));
        }
        if bytes < MODEST_BYTES {
            batch = (2 * batch).min(MAX_BATCH);
        }
    }
}

/// Encodes a position as an opaque cursor; its content may change between versions.
pub(crate) fn cursor_of(place: &impl Serialize) -> Result<String, Problem> {
    let text = serde_json::to_vec(place).map_err(|error| problem::internal(&error))?;
    Ok(BASE64_URL_SAFE_NO_PAD.encode(text))
}

/// Decodes the cursor of a page.
pub(crate) fn place_in<P: DeserializeOwned>(cursor: Option<&str>) -> Result<Option<P>, Problem> {
    let Some(cursor) = cursor else {
        return Ok(None);
    };
    let text = BASE64_URL_SAFE_NO_PAD.decode(cursor).ok();
    let place = text.and_then(|text| serde_json::from_slice(&text).ok());
    place.map(Some).ok_or_else(bad_cursor)
}

/// Creates the error for an invalid cursor.
pub(crate) fn bad_cursor() -> Problem {
    Problem::bad("`cursor` must be the one of an earlier response")
}

/// Returns the address of the next page.
pub(crate) fn address(path: &str, query: &[(&str, Option<String>)]) -> String {
    let mut address = path.to_owned();
    let values = query
        .iter()
        .filter_map(|(name, value)| Some((name, value.as_ref()?)));
    for (index, (name, value)) in values.enumerate() {
        address.push(if index == 0 { '?' } else { '&' });
        address.push_str(&format!("{name}={}", percent(value)));
    }
    address
}

/// Percent-encodes a value of a query.
fn percent(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' => {
                char::from(byte).to_string()
            }
            other => format!("%{other:02X}"),
        })
        .collect()
}

/// Returns the size of an item as JSON.
pub(crate) fn size<T: Serialize>(item: &T) -> Result<usize, Problem> {
    struct Count(usize);

    impl std::io::Write for Count {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 += bytes.len();
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    let mut count = Count(0);
    serde_json::to_writer(&mut count, item).map_err(|error| problem::internal(&error))?;
    Ok(count.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_pages_end_after_at_least_one_item() {
        let long = "x".repeat(PAGE_BYTES / 2);
        let mut page = Page::default();
        assert!(page.take(&[&long]).unwrap());
        assert!(!page.take(&[&long]).unwrap(), "the quotes do not fit");
        assert!(page.take(&["short"]).unwrap());
        page.body.push(b']');
        let list: Vec<String> = serde_json::from_slice(&page.body).unwrap();
        assert_eq!(list.len(), 2);
        let mut page = Page::default();
        assert!(page.take(&["x".repeat(2 * PAGE_BYTES)]).unwrap());
        assert!(!page.take(&["y"]).unwrap());
        assert_eq!(size(&["y", "z"]).unwrap(), r#"["y","z"]"#.len());
    }
}
