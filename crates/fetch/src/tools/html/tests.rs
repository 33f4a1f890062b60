use super::*;

fn url() -> Url {
    Url::parse("https://example.org/docs/page").unwrap()
}

fn check(html: &str, expected: &str) {
    let reading = read(html, &url(), Format::Markdown);
    assert_eq!(reading.text, expected, "{html}");
    assert!(!reading.cut);
}

#[test]
fn pages_become_markdown() {
    check("<h1>A</h1><p>b <b>c</b></p>", "# A\n\nb **c**");
    check("<ul><li>a<li>b</ul>", "- a\n- b");
    check("<a href=../x?y#z>t</a>", "[t](https://example.org/x?y#z)");
    check(
        "<base href=/b/><a href=x>t</a>",
        "[t](https://example.org/b/x)",
    );
    check(
        "<a href=//other.example/x>t</a>",
        "[t](https://other.example/x)",
    );
    check("<a href='javascript:alert(1)'>t</a>", "t");
    check("<a href='data:text/html,x'>t</a>", "t");
    check("<pre><code>a\n  b</code></pre>", "```\na\n  b\n```");
    check("plain", "plain");
    check("", "");
}

#[test]
fn invisible_elements_are_not_read() {
    for hidden in [
        "<script>bad</script>",
        "<style>bad</style>",
        "<noscript>bad</noscript>",
        "<template><p>bad</p></template>",
        "<!-- bad -->",
        "<p hidden>bad</p>",
        "<div aria-hidden=true><p>bad</p></div>",
        "<p style='display:none'>bad</p>",
        "<p style='color:red; DISPLAY : None !important'>bad</p>",
        "<p style='visibility: hidden'>bad</p>",
        "<p style='opacity: 0'>bad</p>",
        "<p style='font-size:0'>bad</p>",
        "<input type=hidden value=bad>",
        "<iframe srcdoc='<p>bad'></iframe>",
        "<svg><text>bad</text></svg>",
        "<textarea hidden>bad</textarea>",
    ] {
        check(&format!("<p>good</p>{hidden}<p>end</p>"), "good\n\nend");
        let html = read(&format!("<p>good</p>{hidden}"), &url(), Format::Html);
        assert!(!html.text.contains("bad"), "{}", html.text);
    }
    check("<p style='opacity: 0.5'>faint</p>", "faint");
}

#[test]
fn the_article_is_found_in_its_page() {
    let story = "This is a sentence of a story, with commas, and then some. ".repeat(12);
    let page = format!(
        "<title>A  story\n - Site</title><nav><a href=/>Home</a> menu menu</nav><article><h2>Part</h2><p>{story}</p><p>{story}</p></article><footer>imprint</footer>"
    );
    let reading = read(&page, &url(), Format::Markdown);
    assert_eq!(reading.title, "A story - Site");
    assert!(
        reading.text.contains("a sentence of a story"),
        "{}",
        reading.text
    );
    assert!(!reading.text.contains("menu menu"), "{}", reading.text);
    let text = read(&page, &url(), Format::Text).text;
    assert!(!text.contains("## Part") && text.contains("Part"), "{text}");
    // A list of links has no article, and is read whole.
    let links = "<li><a href=/x>one of many links</a>".repeat(50);
    let reading = read(&format!("<ul>{links}</ul>"), &url(), Format::Markdown);
    assert_eq!(reading.text.matches("one of many").count(), 50);
}

/// A hostile page is read from its beginning, and never overflows the stack.
#[test]
fn hostile_pages_are_read_within_limits() {
    let large = 10 * 1024 * 1024;
    for unit in [
        "<div>",
        "<b>",
        "<b><p>",
        "<ul><li>",
        "<blockquote>",
        "<table><tr><td>",
        "<a href=x><b>",
        "<svg><g>",
        "<div><marquee></div></marquee>",
        "<font color=x>",
        "<template>",
        "<select><option>",
        "<p>x",
        "<!--",
        "<x a=b c=d e=f ",
        "&amp;",
    ] {
        let page = format!("start {}", unit.repeat(large / unit.len()));
        let reading = read_within(&page, &url(), Format::Markdown, Duration::from_millis(100));
        assert!(reading.cut, "{unit}");
        assert!(reading.text.starts_with("start"), "{unit}");
        assert!(reading.text.len() < 2 * MAX_HTML_BYTES, "{unit}");
    }
}

/// The search for the article visits nested elements repeatedly.
#[test]
fn a_deep_and_wide_page_is_read_whole() {
    let depth = MAX_DEPTH - 10;
    let words = "<p>Some words, and more of them, of a text.</p>".repeat(5_000);
    let page = format!("{}{words}", "<div>".repeat(depth));
    // A generous limit: the test must pass on a busy machine.
    let reading = read_within(&page, &url(), Format::Markdown, Duration::from_secs(600));
    assert!(!reading.cut);
    assert_eq!(reading.text.matches("Some words").count(), 5_000);
}
