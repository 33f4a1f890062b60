//! The address that a browser asked for before it had to log in. The login form carries it in a field;
//! a login link, which is opened in another tab, finds it in a cookie.

use axum::http::header::{HeaderMap, HeaderValue};
use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;

use crate::access::is_api;
use crate::app::App;
use crate::guard::{LOGIN, cookie_named};

/// Longer addresses are forgotten.
const MAX_BYTES: usize = 1_000;
/// How long the address is kept: twice the life of a login link.
const KEPT_SECONDS: u32 = 600;

/// Returns the address if it is one of the page: a path of this server, and nothing that a browser
/// would read as another host.
pub(crate) fn of_page(address: &str) -> Option<&str> {
    let path = address.split('?').next().unwrap_or_default();
    let is_ours = address.starts_with('/')
        && !path.contains("//")
        && !path.split('/').any(is_dots)
        && address.len() <= MAX_BYTES
        && address.bytes().all(|byte| byte.is_ascii_graphic())
        && !address.contains(['\\', '#'])
        && !is_api(path)
        && path != LOGIN
        && !path.starts_with("/login/");
    (is_ours && address != "/").then_some(address)
}

/// Returns whether a browser resolves this part of a path against the parts before it. With what
/// follows, `/.//host` would name another host.
fn is_dots(part: &str) -> bool {
    let plain = part.to_ascii_lowercase().replace("%2e", ".");
    matches!(plain.as_str(), "." | "..")
}

/// Returns the address that the browser asked for last.
pub(crate) fn kept(app: &App, headers: &HeaderMap) -> Option<String> {
    let text = cookie_named(headers, &name(app))?;
    let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
    let address = String::from_utf8(bytes).ok()?;
    of_page(&address).map(str::to_owned)
}

/// Returns the cookie that keeps an address. Only the login receives it.
pub(crate) fn keep(app: &App, address: &str) -> Option<HeaderValue> {
    let value = BASE64_URL_SAFE_NO_PAD.encode(address);
    set(app, &value, KEPT_SECONDS)
}

/// Returns the cookie that removes the address.
pub(crate) fn forget(app: &App) -> Option<HeaderValue> {
    set(app, "", 0)
}

fn name(app: &App) -> String {
    app.cookie.replacen("session", "next", 1)
}

fn set(app: &App, value: &str, seconds: u32) -> Option<HeaderValue> {
    let name = name(app);
    let text =
        format!("{name}={value}; HttpOnly; SameSite=Strict; Path={LOGIN}; Max-Age={seconds}");
    HeaderValue::from_str(&text).ok()
}

#[cfg(test)]
mod tests {
    use super::of_page;

    #[test]
    fn only_addresses_of_the_page_are_kept() {
        for ours in ["/tasks", "/tasks/0199?x=1", "/tasks?q=a%20b&status=failed"] {
            assert_eq!(of_page(ours), Some(ours));
        }
        let long = format!("/{}", "a".repeat(1_000));
        for other in [
            "",
            "/",
            "tasks",
            "//evil.example/x",
            "/.//evil.example",
            "/%2E%2e/tasks",
            "/tasks//x",
            "/\\evil.example",
            "https://evil.example",
            "/tasks#page-key=x",
            "/tasks\r\nSet-Cookie: a=b",
            "/a b",
            "/api/tasks",
            "/login",
            "/login?code=x",
            "/login/proof",
            &long,
        ] {
            assert_eq!(of_page(other), None, "{other}");
        }
    }
}
