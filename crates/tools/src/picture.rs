//! Recognizes image files by their first bytes, never by their names.

/// The most bytes of an image for a model; providers reject more.
pub(crate) const MAX_PICTURE_BYTES: usize = 3 * 1024 * 1024;

/// Returns the media type of an image that models can read.
pub(crate) fn media_type(bytes: &[u8]) -> Option<&'static str> {
    let starts = |magic: &[u8]| bytes.starts_with(magic);
    if starts(b"\x89PNG\r\n\x1a\n") {
        Some("image/png")
    } else if starts(b"\xff\xd8\xff") {
        Some("image/jpeg")
    } else if starts(b"GIF87a") || starts(b"GIF89a") {
        Some("image/gif")
    } else if starts(b"RIFF") && bytes.get(8..12) == Some(b"WEBP") {
        Some("image/webp")
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_are_known_by_their_first_bytes() {
        let check = |bytes: &[u8], expected: Option<&str>| {
            assert_eq!(media_type(bytes), expected, "{bytes:?}");
        };
        check(b"\x89PNG\r\n\x1a\nrest", Some("image/png"));
        check(b"\xff\xd8\xff\xe0", Some("image/jpeg"));
        check(b"GIF89a", Some("image/gif"));
        check(b"RIFF1234WEBPVP8 ", Some("image/webp"));
        check(b"RIFF1234WAVE", None);
        check(b"RIFF", None);
        check(b"png", None);
        check(b"", None);
    }
}
