//! Lists that are bounded in bytes too: texts of tasks and tools may be long, and a few of them fill an
//! answer. What does not fit is on the next page, and the answer says where that begins.

use axum::http::header::{self, HeaderMap, HeaderName, HeaderValue};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use serde::Serialize;

use crate::problem::{self, Problem};

/// Where a page ends, though more was asked for. A client that reads slowly holds this much memory.
pub(crate) const PAGE_BYTES: usize = 8 * 1024 * 1024;
/// Says where the next page begins.
pub(crate) const NEXT_CURSOR: HeaderName = HeaderName::from_static("sortie-next-cursor");

/// A list as JSON, while there is room.
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
    /// Takes these, all or none: `false` if they belong to the next page. The first ones always fit,
    /// or a long one would be on no page.
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

    /// Says that there is more, after this place and at this address.
    pub(crate) fn goes_on(&mut self, cursor: &str, address: &str) -> Result<(), Problem> {
        let value = |text: &str| {
            HeaderValue::from_str(text)
                .map_err(|_| Problem::bad("the query cannot be said again in a header"))
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

/// How many bytes something is as JSON.
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
    fn a_page_ends_when_it_is_full_and_has_at_least_one_thing() {
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
