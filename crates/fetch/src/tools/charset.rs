//! Decodes bytes to text: by byte order mark, then by header, then by the page's own declaration.

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

/// How many bytes of a page are searched for a charset declaration, as browsers do.
const DECLARATION_BYTES: usize = 1024;

/// Decodes text of any charset. Invalid sequences become U+FFFD.
pub(crate) fn decode(bytes: &[u8], from_header: Option<&str>) -> String {
    let named = from_header.and_then(|label| Encoding::for_label(label.as_bytes()));
    let encoding = named
        .or_else(|| declared(bytes))
        .unwrap_or_else(|| guessed(bytes));
    // A byte order mark takes precedence over all of these.
    let (text, _, _) = encoding.decode(bytes);
    text.into_owned()
}

/// Returns the charset of `<meta charset>`, `<meta http-equiv>` or `<?xml encoding?>`.
fn declared(bytes: &[u8]) -> Option<&'static Encoding> {
    let head = &bytes[..bytes.len().min(DECLARATION_BYTES)];
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    let after = ["charset=", "encoding="]
        .iter()
        .find_map(|word| Some(&head[head.find(word)? + word.len()..]))?;
    let label = after.trim_start_matches(['"', '\'', ' ']);
    let end = label.find(|c: char| !(c.is_ascii_alphanumeric() || "-_:.".contains(c)));
    let label = &label.as_bytes()[..end.unwrap_or(label.len())];
    let found = Encoding::for_label(label)?;
    // The declaration was readable as ASCII, so the page is not in one of these charsets.
    let wide = found == encoding_rs::UTF_16LE || found == encoding_rs::UTF_16BE;
    Some(if wide { UTF_8 } else { found })
}

/// Returns UTF-8 if the bytes are plausible UTF-8, otherwise the default of old servers.
fn guessed(bytes: &[u8]) -> &'static Encoding {
    match std::str::from_utf8(bytes) {
        Ok(_) => UTF_8,
        // A few invalid bytes, or an incomplete last character, do not indicate another charset.
        Err(_)
            if String::from_utf8_lossy(bytes).matches('\u{fffd}').count() * 100 < bytes.len() =>
        {
            UTF_8
        }
        Err(_) => WINDOWS_1252,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn charsets() {
        let check = |bytes: &[u8], header: Option<&str>, expected: &str| {
            assert_eq!(decode(bytes, header), expected, "{bytes:?} {header:?}");
        };
        check("日本".as_bytes(), None, "日本");
        check(b"caf\xe9", Some("iso-8859-1"), "café");
        check(b"caf\xe9", None, "café");
        check(b"\xb2\xe2\xca\xd4", Some("GBK"), "测试");
        check(
            b"<meta charset=gb2312>\xb2\xe2",
            None,
            "<meta charset=gb2312>测",
        );
        check(
            b"<meta http-equiv=x content='text/html; charset=Shift_JIS'>\x93\xfa",
            None,
            "<meta http-equiv=x content='text/html; charset=Shift_JIS'>日",
        );
        check(
            b"<?xml encoding=\"windows-1251\"?>\xc4",
            None,
            "<?xml encoding=\"windows-1251\"?>Д",
        );
        check(b"\xef\xbb\xbfhi", Some("iso-8859-1"), "hi");
        check(b"\xff\xfeh\0i\0", None, "hi");
        check("é".as_bytes(), Some("no-such-charset"), "é");
        check(
            b"<meta charset=utf-16>\xc3\xa9",
            None,
            "<meta charset=utf-16>é",
        );
        let mostly = format!("{}\u{e9}", "x".repeat(300)).into_bytes();
        check(
            &[&mostly[..], b"\xff"].concat(),
            None,
            &format!("{}é\u{fffd}", "x".repeat(300)),
        );
    }
}
