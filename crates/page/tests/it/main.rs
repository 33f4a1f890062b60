//! What the server may rely on, whether the page was built or not.

use std::borrow::Cow;

#[test]
fn the_first_page_is_always_there() {
    let index = sortie_page::get("index.html").expect("a page");
    let text = String::from_utf8(index.bytes.into_owned()).expect("UTF-8");
    assert!(text.starts_with("<!doctype html>"), "{text:.80}");
    assert_eq!(index.media_type, "text/html; charset=utf-8");
    assert!(!index.immutable, "the first page names the others");
    if !sortie_page::is_built() {
        assert!(!text.contains("<script"), "{text}");
        assert!(text.contains("Node") && text.contains("安装"), "{text}");
    }
}

/// A strict content security policy lets neither of these work.
#[test]
fn nothing_is_inline() {
    for path in sortie_page::paths().filter(|path| path.ends_with(".html")) {
        let page = sortie_page::get(&path).expect("listed");
        let text = String::from_utf8_lossy(&page.bytes).to_ascii_lowercase();
        for tag in text.split("<script").skip(1) {
            let (open, rest) = tag.split_once('>').expect("a whole tag");
            assert!(open.contains("src="), "{path}: {open}");
            assert!(rest.starts_with("</script"), "{path}: {rest:.40}");
        }
        assert!(!text.contains("<style"), "{path}");
        assert!(!text.contains("style="), "{path}");
        assert!(
            !text.contains("http://") && !text.contains("https://"),
            "{path}"
        );
    }
}

#[test]
fn files_with_a_hash_in_their_name_never_change() {
    for path in sortie_page::paths() {
        let asset = sortie_page::get(&path).expect("listed");
        assert_eq!(asset.immutable, path.starts_with("assets/"), "{path}");
        assert_ne!(asset.media_type, "application/octet-stream", "{path}");
        assert!(!asset.bytes.is_empty(), "{path}");
    }
}

#[test]
fn paths_stay_inside_the_page() {
    for path in [
        "",
        "/index.html",
        "../Cargo.toml",
        "assets/../index.html",
        "nothing",
        "assets",
    ] {
        assert_eq!(
            sortie_page::get(path).map(|asset| asset.bytes),
            None::<Cow<'_, [u8]>>,
            "{path}"
        );
    }
}
