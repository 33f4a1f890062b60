use super::*;

#[cfg(feature = "page")]
#[test]
fn index_is_embedded_whether_the_page_was_built_or_not() {
    let index = get("index.html").expect("a page");
    let text = String::from_utf8(index.bytes.into_owned()).expect("UTF-8");
    assert!(text.starts_with("<!doctype html>"), "{text:.80}");
    assert_eq!(index.media_type, "text/html; charset=utf-8");
    assert!(!index.immutable, "the first page names the others");
    if !is_built() {
        assert!(!text.contains("<script"), "{text}");
        assert!(text.contains("Node") && text.contains("安装"), "{text}");
    }
}

// The content security policy forbids both.
#[test]
fn html_has_no_inline_scripts_or_styles() {
    for path in paths().filter(|path| path.ends_with(".html")) {
        let page = get(&path).expect("listed");
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
fn only_files_with_a_hash_in_their_name_are_immutable() {
    for path in paths() {
        let asset = get(&path).expect("listed");
        assert_eq!(asset.immutable, path.starts_with("assets/"), "{path}");
        assert_ne!(asset.media_type, "application/octet-stream", "{path}");
        assert!(!asset.bytes.is_empty(), "{path}");
    }
}

#[test]
fn paths_outside_of_the_page_are_not_found() {
    for path in [
        "",
        "/index.html",
        "../Cargo.toml",
        "assets/../index.html",
        "nothing",
        "assets",
    ] {
        assert_eq!(
            get(path).map(|asset| asset.bytes),
            None::<Cow<'_, [u8]>>,
            "{path}"
        );
    }
}
