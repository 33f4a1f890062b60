//! Extracts results from the response of a search provider.

use crate::Url;
use dom_query::{Document, Matcher, Selection};
use serde_json::Value;
use sortie_base::truncate::first_bytes;

use crate::tools::clean::one_line;
use crate::tools::html::document;
use crate::tools::provider::Answers;

/// Limits of the parts of a result.
const MAX_TITLE_CHARS: usize = 200;
const MAX_SNIPPET_CHARS: usize = 600;
const MAX_URL_CHARS: usize = 1000;
/// Limit of a field that is parsed.
const MAX_FIELD_BYTES: usize = 8 * 1024;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SearchResult {
    pub(crate) title: String,
    pub(crate) url: String,
    pub(crate) snippet: String,
}

/// The response does not have the expected shape.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Strange;

/// Returns the first results of a response.
pub(crate) fn results(
    answers: Answers,
    body: &[u8],
    count: usize,
) -> Result<Vec<SearchResult>, Strange> {
    let mut found = match answers {
        Answers::Json {
            list,
            title,
            url,
            snippet,
        } => from_json(body, list, [title, url, snippet])?,
        Answers::Html {
            item,
            link,
            snippet,
            nothing,
            wrapped_in,
        } => from_html(body, [item, link, snippet, nothing], wrapped_in)?,
    };
    found.truncate(count);
    Ok(found)
}

fn from_json(body: &[u8], list: &str, fields: [&str; 3]) -> Result<Vec<SearchResult>, Strange> {
    let value: Value = serde_json::from_slice(body).map_err(|_| Strange)?;
    if !value.is_object() {
        return Err(Strange);
    }
    // Providers often omit the list if there are no results.
    let Some(list) = value.pointer(list) else {
        return Ok(Vec::new());
    };
    let items = list.as_array().ok_or(Strange)?.iter();
    let field = |item: &Value, name: &str| plain(item[name].as_str().unwrap_or_default());
    Ok(items
        .filter_map(|item| {
            let [title, url, snippet] = fields;
            let link = item[url].as_str()?;
            made(
                &field(item, title),
                &Url::parse(link).ok()?,
                &field(item, snippet),
            )
        })
        .collect())
}

/// Returns the text of a field that may contain HTML markup.
fn plain(field: &str) -> String {
    let field = first_bytes(field, MAX_FIELD_BYTES);
    if !field.contains(['<', '&']) {
        return field.to_owned();
    }
    Document::fragment(field).text().to_string()
}

fn from_html(
    body: &[u8],
    selectors: [&str; 4],
    wrapped_in: &str,
) -> Result<Vec<SearchResult>, Strange> {
    let document = document(&String::from_utf8_lossy(body));
    let matchers = selectors.map(|selector| Matcher::new(selector).ok());
    let [Some(item), Some(link), Some(snippet), Some(nothing)] = matchers else {
        return Err(Strange);
    };
    let found: Vec<SearchResult> = document
        .select_matcher(&item)
        .iter()
        .filter_map(|item| one(&item, &link, &snippet, wrapped_in))
        .collect();
    if found.is_empty() && !document.select_matcher(&nothing).exists() {
        // Neither results nor the notice that there are none: a page for robots.
        return Err(Strange);
    }
    Ok(found)
}

fn one(
    item: &Selection<'_>,
    link: &Matcher,
    snippet: &Matcher,
    wrapped_in: &str,
) -> Option<SearchResult> {
    let link = item.select_single_matcher(link);
    let href = link.attr("href")?;
    let base = Url::parse("https://invalid./").ok()?;
    let url = base.join(&href).ok()?;
    let real = url.query_pairs().find(|(name, _)| name == wrapped_in);
    let url = match real {
        Some((_, real)) => Url::parse(&real).ok()?,
        None => url,
    };
    made(
        &link.text(),
        &url,
        &item.select_single_matcher(snippet).text(),
    )
}

/// Builds a result if its URL is valid.
fn made(title: &str, url: &Url, snippet: &str) -> Option<SearchResult> {
    let good = matches!(url.scheme(), "http" | "https") && url.as_str().len() <= MAX_URL_CHARS;
    good.then(|| SearchResult {
        title: one_line(title, MAX_TITLE_CHARS),
        url: one_line(url.as_str(), MAX_URL_CHARS),
        snippet: one_line(snippet, MAX_SNIPPET_CHARS),
    })
}
