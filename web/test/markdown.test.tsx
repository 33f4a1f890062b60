import { render as draw } from "preact";
import { describe, expect, it } from "vitest";
import { Markdown } from "../src/markdown";
import { cost, lex, MAX_COST } from "../src/markdown/bounded";
import { sanitize, escapeHidden, escapeHiddenLine, sanitizeLine, link } from "../src/markdown/sanitize";
import { DRAWN, HIDDEN, TAG_FLAGS } from "../src/markdown/hidden";
import { entities } from "../src/markdown/entities";

function html(text: string): string {
  const root = document.createElement("div");
  draw(<Markdown text={text} />, root);
  return root.innerHTML;
}

function element(text: string): HTMLElement {
  const root = document.createElement("div");
  draw(<Markdown text={text} />, root);
  return root;
}

describe("Markdown of agents", () => {
  it("renders common Markdown", () => {
    const root = element(
      "# Head\n\nSome **bold** `code` and ~~old~~.\n\n- [x] done\n- two\n\n| a | b |\n| - | - |\n| 1 | 2 |\n\n```rs\nfn f() {}\n```\n\n> quote",
    );
    expect(root.querySelector("h2")?.textContent).toBe("Head");
    expect(root.querySelector("strong")?.textContent).toBe("bold");
    expect(root.querySelectorAll("li")).toHaveLength(2);
    expect(root.querySelector("td")?.textContent).toBe("1");
    expect(root.querySelector("pre")?.textContent).toBe("fn f() {}");
    expect(root.querySelector("blockquote")?.textContent).toContain("quote");
  });

  it("aligns the columns of a table", () => {
    const root = element("| a | b | c |\n| - | -: | :-: |\n| 1 | 2 | 3 |");
    const classes = [...root.querySelectorAll("td")].map((cell) => cell.className);
    expect(classes).toEqual(["", "right", "center"]);
  });

  it("renumbers headings to fit the outline of the page", () => {
    const levels = [
      ...element("#### a\n\n# b\n\n###### c\n\n## d\n\n> # e").querySelectorAll("h1,h2,h3,h4,h5,h6"),
    ].map((found) => found.tagName);
    expect(levels).toEqual(["H2", "H2", "H3", "H3"]);
  });

  it.each([
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "text <b onmouseover=alert(1)>bold</b> text",
    "<svg><animate onbegin=alert(1) attributeName=x dur=1s>",
    "<iframe srcdoc='<script>1</script>'></iframe>",
    "<style>*{display:none}</style>",
    "<details open ontoggle=alert(1)>",
    "<a href='javascript:alert(1)'>x</a>",
    "<!-- --><object data=x></object>",
    "[x]: <script>\n\n<math><mtext></mtext></math>",
    "| <img src=x> |\n| - |\n| <script>1</script> |",
    "# <script>1</script>",
    "`<script>`",
    "```\n</pre><script>alert(1)</script>\n```",
  ])("shows HTML as text: %s", (hostile) => {
    const root = element(hostile);
    expect(
      root.querySelector(
        "script, img, svg:not(button svg), iframe, style, object, math, animate, a, b[onmouseover]",
      ),
    ).toBeNull();
    for (const node of root.querySelectorAll("*"))
      for (const { name } of node.attributes) expect(name).not.toMatch(/^on/);
  });

  it.each([
    "javascript:alert(1)",
    "JaVaScRiPt:alert(1)",
    "data:text/html,x",
    "vbscript:x",
    "file:///etc/passwd",
    "blob:x",
    "//evil.example",
    "/api/logout",
    "java\tscript:alert(1)",
    "https://user:pass@evil.example",
    " javascript:x",
    "https://",
  ])("does not link to %s", (address) => {
    expect(link(address)).toBeNull();
    expect(element(`[click](<${address}>)`).querySelector("a")).toBeNull();
  });

  it("shows the host of a link and sends no referrer", () => {
    const a = element("[your bank](https://evil.example/x)");
    const found = a.querySelector("a")!;
    expect(found.getAttribute("rel")).toBe("noopener noreferrer nofollow");
    expect(found.getAttribute("target")).toBe("_blank");
    expect(a.textContent).toContain("(evil.example)");
  });

  it("never loads an image", () => {
    const root = element("![secret](https://evil.example/leak.png?q=1)");
    expect(root.querySelector("img")).toBeNull();
    expect(root.textContent).toContain("secret");
    expect(root.textContent).toContain("evil.example");
  });

  it("limits what is drawn at first", () => {
    const table = `| a |\n| - |\n${"| x |\n".repeat(3_000)}`;
    expect(element(table).querySelectorAll("tr").length).toBeLessThan(250);
    expect(element("- x\n".repeat(3_000)).querySelectorAll("li").length).toBeLessThan(250);
    expect(html("word ".repeat(200_000)).length).toBeLessThan(40_000);
    expect(element("word ".repeat(200_000)).querySelector("button")).not.toBeNull();
  });

  it.each([
    ["quotes", ">".repeat(20_000)],
    ["spaced quotes", "> ".repeat(10_000)],
    ["lists", "- ".repeat(10_000)],
    ["indented lists", Array.from({ length: 400 }, (_, n) => `${"  ".repeat(n)}- x`).join("\n")],
    ["brackets", "[".repeat(20_000)],
    ["links", "[a](".repeat(5_000)],
    ["stars", "*a ".repeat(8_000)],
    ["double stars", "**a*".repeat(5_000)],
    ["backticks", Array.from({ length: 150 }, (_, n) => "`".repeat(n)).join(" ")],
    ["angle brackets", "<a ".repeat(8_000)],
    ["comments", "<!--".repeat(6_000)],
    ["entities", "&".repeat(24_000)],
    ["table", `|${"|".repeat(10_000)}\n|${"-|".repeat(5_000)}`],
    ["one long line", "a".repeat(1_000_000)],
    ["definitions", "[a]: x\n".repeat(3_000)],
    ["underscores", "_a_".repeat(8_000)],
    ["tildes", "~~a~".repeat(5_000)],
    ["autolinks", "www.a.b".repeat(3_000)],
    ["mail", `${"a.".repeat(10_000)}@b.c`],
  ])("stays responsive with many %s", (_name, text) => {
    const root = element(text);
    // A rule or empty code contains no text.
    expect(root.textContent !== "" || root.querySelector("hr, pre") !== null).toBe(true);
    expect(root.querySelectorAll("*").length).toBeLessThan(30_000);
  });
});

describe("limits of the parser", () => {
  const lengths = Array.from({ length: 380 }, (_, n) => n + 20);
  it("parses short runs of mixed marks quickly", () => {
    for (const pair of ["*_", "[(", "~~", "<!", "*[", "_~", "*a"])
      for (const length of lengths)
        expect(element(pair.repeat(length / 2)).querySelector(".md > *")).not.toBeNull();
  });

  it("parses any string of marks", () => {
    // A seeded generator: the same strings on each run.
    let seed = 7;
    const next = (below: number) => (seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648) % below;
    const signs = "*_~`[]!<(\\@:)>-+#|&=\n ab";
    for (let round = 0; round < 150; round++) {
      const some = Array.from({ length: 1 + next(5) }, () => signs[next(signs.length)]!).join("");
      const text = Array.from({ length: 1 + next(5_000) }, () => some[next(some.length)]!).join("");
      const tokens = lex(text);
      expect(
        tokens.map((token) => token.raw.length).reduce((sum, length) => sum + length, 0),
      ).toBeLessThanOrEqual(text.length + tokens.length);
    }
  });

  it("estimates the cost of a paragraph, and shows an expensive one as text", () => {
    expect(cost("*a*")).toBe(6);
    expect(cost("plain")).toBe(0);
    const dear = "**a** ".repeat(2_000);
    expect(cost(dear)).toBeGreaterThan(MAX_COST);
    const root = element(`**before**\n\n${dear}\n\n**after**`);
    expect([...root.querySelectorAll("strong")].map((found) => found.textContent)).toEqual([
      "before",
      "after",
    ]);
    expect(root.textContent).toContain("**a** **a**");
  });

  it.each(["-", "=", "*", "_", "- "])("renders Markdown after a long line of %s", (sign) => {
    const root = element(`**Title**\n\n${sign.repeat(40)}\n\n- **one**\n- two`);
    expect(root.querySelectorAll("strong")).toHaveLength(2);
    expect(root.querySelectorAll("li")).toHaveLength(2);
  });

  it("renders Markdown around code with such lines", () => {
    const inside = `${"> ".repeat(40)}\n${"-".repeat(80)}\n${"*_".repeat(3_000)}`;
    const root = element(`**a**\n\n\`\`\`\n${inside}\n\`\`\`\n\n**b**`);
    expect(root.querySelectorAll("strong")).toHaveLength(2);
    expect(root.querySelector("pre")?.textContent).toContain("*_*_");
  });

  it("shows deeply nested quotes and lists as text", () => {
    const root = element(`${"> ".repeat(60)}deep\n\n${"- ".repeat(60)}below\n\n**after**`);
    expect(root.querySelectorAll("blockquote").length).toBeLessThan(20);
    expect(root.textContent).toContain("deep");
    expect(root.textContent).toContain("below");
    expect(root.querySelector("strong")?.textContent).toBe("after");
  });

  it("reports how many columns of a wide table are not shown", () => {
    const row = `|${" a |".repeat(60)}`;
    expect(element(`${row}\n|${"-|".repeat(60)}\n${row}`).textContent).toMatch(/20 more columns/);
  });

  it("decodes entities and escapes hidden characters in them", () => {
    expect(entities("a &amp; b &lt;c&gt; &#39;d&#x27; &rarr; &unknown; &constructor; AT&T")).toBe(
      "a & b <c> 'd' → &unknown; &constructor; AT&T",
    );
    expect(entities("&#x202e;x&#0;&#xd800;&#27;")).toBe("\\u{202e}x��\\u{1b}");
    expect(element("a &lt;b&gt; `&lt;`").textContent).toBe("a <b> &lt;");
    expect(element("[x](javascript&#58;alert(1))").querySelector("a")).toBeNull();
  });
});

describe("sanitize", () => {
  it("makes one line of many spaces in linear time", () => {
    expect(sanitizeLine(`a${" ".repeat(300_000)}b`).length).toBe(300_002);
    expect(sanitizeLine("a  \r\n \n  b\n")).toBe("a ⏎ b");
  });
  it("removes escape sequences of terminals and escapes hidden characters", () => {
    expect(sanitize("\u001b[31mred\u001b[0m \u001b]0;title\u0007x")).toBe("red x");
    expect(sanitize("a\u202eb")).toBe("a\\u{202e}b");
    expect(sanitize("a\u0000b\u0008")).toBe("a\\u{0}b\\u{8}");
    expect(sanitize("a\u{e0041}b")).toBe("a\\u{e0041}b");
    expect(sanitize("\u2066x\u2069\u200b")).toBe("\\u{2066}x\\u{2069}\\u{200b}");
    expect(sanitize("tab\tand\nline\r\nend")).toBe("tab\tand\nline\nend");
    expect(sanitize("family 👨‍👩‍👧 中文 é")).toBe("family 👨‍👩‍👧 中文 é");
  });
  it("escapes every hidden character of the table", () => {
    for (const [first, last] of HIDDEN) {
      for (const code of [first, last]) {
        const character = String.fromCodePoint(code);
        const shown = `a\\u{${code.toString(16)}}b`;
        expect(escapeHiddenLine(`a${character}b`)).toBe(shown);
        if (character !== "\n") expect(escapeHidden(`a${character}b`)).toBe(shown);
        const kept =
          ["\n", "\t", "\r"].includes(character) || DRAWN.some(([from, to]) => from <= code && code <= to);
        if (!kept) expect(sanitize(`a${character}b`)).toBe(shown);
      }
    }
  });
  it("never shows two different commands alike", () => {
    const readBack = (shown: string) =>
      shown.replace(/\\u\{([0-9a-f]+)\}/g, (_, code: string) => String.fromCodePoint(parseInt(code, 16)));
    const parts = [
      "a",
      " ",
      "\\",
      "u",
      "{",
      "}",
      "\\u{",
      "5c",
      "200b",
      "\n",
      "\t",
      "\u200b",
      "\u{e0100}",
      "\u3164",
      "\u00a0",
      "\u001b[2K",
      "\r",
      "删",
      "👩",
      "\u200d",
      "\ufe0f",
    ];
    let seed = 11;
    const random = (most: number) => (seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648) % most;
    for (let n = 0; n < 5_000; n++) {
      const text = Array.from({ length: random(12) }, () => parts[random(parts.length)]!).join("");
      expect(readBack(escapeHidden(text))).toBe(text);
      expect(readBack(escapeHiddenLine(text))).toBe(text);
    }
    expect(escapeHidden("./build.sh\u{e0100} |\n\ttee\tx")).toBe("./build.sh\\u{e0100} |\n\ttee\\u{9}x");
  });
  it("keeps the invisible characters of emoji and scripts, and no others", () => {
    for (const text of ["❤\ufe0f\u200d🔥", "1\ufe0f\u20e3", "نام\u200cها", `${TAG_FLAGS[1]}!`])
      expect(sanitize(text)).toBe(text);
    expect(sanitize("a\u200db")).toBe("a\\u{200d}b");
    expect(sanitize("🏴\u{e0041}")).toBe("🏴\\u{e0041}");
    expect(sanitize("❤\ufe0f\ufe0f")).toBe("❤\ufe0f\\u{fe0f}");
  });
  it("shows a label on one line", () => {
    expect(sanitizeLine("a\n\n  b")).toBe("a ⏎ b");
  });
});
