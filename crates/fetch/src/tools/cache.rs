//! Caches recently fetched pages.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use reqwest::header::{CACHE_CONTROL, HeaderMap};
use tokio::time::Instant;

use crate::tools::html::Format;
use crate::tools::page::Content;

/// Lifetime of a cached page.
const MAX_AGE: Duration = Duration::from_secs(15 * 60);
/// Limit of cached pages.
const MAX_PAGES: usize = 64;
/// Limit of the bytes of all cached pages.
const MAX_BYTES: usize = 16 * 1024 * 1024;

/// A cached page and where it came from.
#[derive(Debug)]
pub(crate) struct Page {
    /// URL after all redirects.
    pub(crate) url: String,
    /// Every host on the way, including the last one.
    pub(crate) hosts: Vec<String>,
    pub(crate) content: Content,
}

impl Page {
    fn size_bytes(&self) -> usize {
        match &self.content {
            Content::Text(reading) => reading.title.len() + reading.text.len(),
            Content::Picture(image) => image.bytes.len(),
        }
    }
}

/// Cached pages, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Cache(Mutex<VecDeque<Entry>>);

#[derive(Debug)]
struct Entry {
    url: String,
    format: Format,
    read_at: Instant,
    page: Arc<Page>,
}

impl Cache {
    /// Returns the page if it is cached and fresh. The caller checks its permits for the hosts.
    pub(crate) fn get(&self, url: &str, format: Format) -> Option<Arc<Page>> {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|entry| entry.read_at.elapsed() < MAX_AGE);
        let found = entries
            .iter()
            .find(|entry| entry.url == url && entry.format == format);
        found.map(|entry| Arc::clone(&entry.page))
    }

    /// Adds a page and evicts the oldest ones beyond the limits.
    pub(crate) fn put(&self, url: &str, format: Format, page: Arc<Page>) {
        let mut entries = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        entries.retain(|entry| !(entry.url == url && entry.format == format));
        entries.push_back(Entry {
            url: url.to_owned(),
            format,
            read_at: Instant::now(),
            page,
        });
        let total = |entries: &VecDeque<Entry>| -> usize {
            entries.iter().map(|entry| entry.page.size_bytes()).sum()
        };
        while entries.len() > MAX_PAGES || total(&entries) > MAX_BYTES {
            entries.pop_front();
        }
    }
}

/// Returns whether the server allows caching of a response.
pub(crate) fn may_keep(headers: &HeaderMap) -> bool {
    headers.get_all(CACHE_CONTROL).iter().all(|value| {
        // An unreadable header may forbid it.
        value.to_str().is_ok_and(|value| {
            value.split(',').all(|word| {
                let word = word.trim().to_ascii_lowercase();
                let name = word.split('=').next().unwrap_or_default();
                !matches!(name, "no-store" | "no-cache" | "private") && word != "max-age=0"
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::html::Reading;

    fn page(text: &str) -> Arc<Page> {
        Arc::new(Page {
            url: String::new(),
            hosts: Vec::new(),
            content: Content::Text(Reading {
                title: String::new(),
                text: text.to_owned(),
                cut: false,
            }),
        })
    }

    #[tokio::test(start_paused = true)]
    async fn cached_pages_expire() {
        let cache = Cache::default();
        cache.put("a", Format::Markdown, page("x"));
        assert!(cache.get("a", Format::Markdown).is_some());
        assert!(cache.get("a", Format::Text).is_none());
        tokio::time::advance(MAX_AGE).await;
        assert!(cache.get("a", Format::Markdown).is_none());
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_page_is_evicted_first() {
        let cache = Cache::default();
        for number in 0..=MAX_PAGES {
            cache.put(&number.to_string(), Format::Text, page("x"));
        }
        assert!(cache.get("0", Format::Text).is_none());
        assert!(cache.get("1", Format::Text).is_some());
        cache.put("large", Format::Text, page(&"x".repeat(MAX_BYTES - 5)));
        assert!(cache.get("large", Format::Text).is_some());
        assert!(cache.get("59", Format::Text).is_none());
        assert!(cache.get("60", Format::Text).is_some());
        cache.put("larger", Format::Text, page(&"x".repeat(MAX_BYTES + 1)));
        assert!(cache.get("larger", Format::Text).is_none());
    }

    #[test]
    fn servers_can_forbid_caching() {
        for (value, kept) in [
            ("public, max-age=60", true),
            ("", true),
            ("No-Store", false),
            ("max-age=0", false),
            ("private=\"x\", max-age=9", false),
            ("public,no-cache", false),
        ] {
            let headers = HeaderMap::from_iter([(CACHE_CONTROL, value.parse().unwrap())]);
            assert_eq!(may_keep(&headers), kept, "{value}");
        }
        assert!(may_keep(&HeaderMap::new()));
    }
}
