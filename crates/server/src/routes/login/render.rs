//! The HTML of the login page: no scripts, no data, both languages.

use axum::http::StatusCode;
use axum::http::header::{self, HeaderMap};
use axum::response::{Html, IntoResponse, Response};
use sortie_core::words::Lang;
use sortie_text::t;

use crate::guard::STYLE;

/// The icon, inline: a browser without a session cannot load a file of the page.
const LOGO: &str = "<svg width=\"28\" height=\"28\" viewBox=\"0 0 32 32\" aria-hidden=\"true\">\
    <rect width=\"32\" height=\"32\" rx=\"7\" fill=\"#0f5e9c\"/>\
    <path d=\"M7 22 16 7l9 15\" fill=\"none\" stroke=\"#fff\" stroke-width=\"3\" \
    stroke-linecap=\"round\" stroke-linejoin=\"round\"/>\
    <g fill=\"#fff\"><circle cx=\"7\" cy=\"24\" r=\"2.4\"/><circle cx=\"16\" cy=\"24\" r=\"2.4\"/>\
    <circle cx=\"25\" cy=\"24\" r=\"2.4\"/></g></svg>";
/// The icon of the tab, for the same reason as data.
const TAB_ICON: &str = "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' \
    viewBox='0 0 32 32'%3E%3Crect width='32' height='32' rx='7' fill='%230f5e9c'/%3E%3Cpath \
    d='M7 22 16 7l9 15' fill='none' stroke='%23fff' stroke-width='3'/%3E%3C/svg%3E";

/// What the page says besides how to log in.
#[derive(Clone, Copy, Debug)]
pub(super) enum Notice<'a> {
    None,
    /// The link or the token was not valid.
    Refused,
    /// The user followed a link with this code, possibly unknowingly.
    Confirm(&'a str),
}

/// Returns the style sheet.
pub(super) async fn style() -> impl IntoResponse {
    (
        [
            (header::CONTENT_TYPE, "text/css; charset=utf-8"),
            (header::CACHE_CONTROL, "private, max-age=3600"),
        ],
        include_str!("style.css"),
    )
}

/// Returns the language of the browser; that of the server if it has another one.
pub(super) fn lang_of(headers: &HeaderMap, server: Lang) -> Lang {
    let wanted = headers.get(header::ACCEPT_LANGUAGE);
    let wanted = wanted.and_then(|value| value.to_str().ok()).unwrap_or("");
    let first = wanted.trim_start().get(..2).map(str::to_ascii_lowercase);
    match first.as_deref() {
        Some("en") => Lang::En,
        Some("zh") => Lang::Zh,
        Some(_) | None => server,
    }
}

/// Renders the page in both languages, the first one large. `next` is the address after the login.
pub(super) fn page(
    status: StatusCode,
    lang: Lang,
    notice: Notice<'_>,
    next: Option<&str>,
) -> Response {
    let other = match lang {
        Lang::En => Lang::Zh,
        Lang::Zh => Lang::En,
    };
    let title = escaped(&t!(lang, "login-title"));
    let body = match notice {
        Notice::None => how(lang),
        Notice::Refused => format!(
            "<p class=\"notice bad\" role=\"alert\">{}</p>\n{}",
            with_code(&t!(lang, "login-refused")),
            how(lang)
        ),
        Notice::Confirm(_) => format!(
            "<p class=\"notice warn\">{}</p>",
            with_code(&t!(lang, "login-confirm"))
        ),
    };
    let second = match notice {
        Notice::None => t!(other, "login-both"),
        Notice::Refused => t!(other, "login-refused"),
        Notice::Confirm(_) => t!(other, "login-confirm"),
    };
    let next = next.map_or_else(String::new, |next| hidden("next", next));
    let html = format!(
        "<!doctype html>\n<html lang=\"{lang}\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n\
         <title>{title}</title>\n<link rel=\"icon\" href=\"{TAB_ICON}\">\n\
         <link rel=\"stylesheet\" href=\"{STYLE}\">\n</head>\n<body>\n<main>\n\
         <div class=\"brand\">{LOGO}Sortie</div>\n<h1>{title}</h1>\n{body}\n\
         <form method=\"post\" action=\"/login\">{}{next}<button>{}</button></form>\n\
         <div class=\"other\" lang=\"{other}\"><p>{}</p></div>\n\
         </main>\n</body>\n</html>\n",
        field(lang, notice),
        escaped(&t!(lang, "login-button")),
        with_code(&second),
    );
    (status, Html(html)).into_response()
}

/// Returns how to get a login link.
fn how(lang: Lang) -> String {
    format!(
        "<p>{}</p>\n<pre>sortie open</pre>\n<p class=\"quiet\">{}</p>",
        escaped(&t!(lang, "login-open")),
        escaped(&t!(lang, "login-once")),
    )
}

fn field(lang: Lang, notice: Notice<'_>) -> String {
    match notice {
        Notice::Confirm(code) => hidden("code", code),
        Notice::None | Notice::Refused => format!(
            "<label for=\"token\">{}</label>\
             <input id=\"token\" type=\"password\" name=\"token\" autocomplete=\"off\" required>",
            escaped(&t!(lang, "login-token"))
        ),
    }
}

fn hidden(name: &str, value: &str) -> String {
    format!(
        "<input type=\"hidden\" name=\"{name}\" value=\"{}\">",
        escaped(value)
    )
}

/// Escapes a text; what is between backquotes becomes code.
fn with_code(text: &str) -> String {
    let part = |(index, part): (usize, &str)| match index % 2 {
        0 => escaped(part),
        _ => format!("<code>{}</code>", escaped(part)),
    };
    text.split('`').enumerate().map(part).collect()
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    #[test]
    fn backquotes_become_code_and_text_is_escaped() {
        assert_eq!(
            with_code("run `a <b>` & \"go\""),
            "run <code>a &lt;b&gt;</code> &amp; &quot;go&quot;"
        );
    }

    #[test]
    fn language_is_that_of_the_browser_if_there_are_texts_in_it() {
        let check = |value: &'static str, expected: Lang| {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_LANGUAGE, HeaderValue::from_static(value));
            assert_eq!(lang_of(&headers, Lang::Zh), expected, "{value}");
        };
        check("en-GB,en;q=0.9,zh;q=0.8", Lang::En);
        check("zh-CN", Lang::Zh);
        check("de-DE,en", Lang::Zh);
        check("", Lang::Zh);
        assert_eq!(lang_of(&HeaderMap::new(), Lang::En), Lang::En);
    }
}
