// Rust and the page treat hidden characters alike: both run over the same table of cases
// (crates/base/tests/it/main.rs runs the other half).
import { readFile } from "node:fs/promises";
import { describe, expect, it } from "vitest";
import { sanitize, escapeHidden, escapeHiddenLine } from "../src/markdown/sanitize";

interface Case {
  name: string;
  text: string;
  exact: string;
  exact_line: string;
  prose: string;
}

const cases = JSON.parse(await readFile("../tests/hidden-characters.json", "utf8")) as Case[];

describe("hidden characters", () => {
  it("have a table of cases", () => expect(cases.length).toBeGreaterThan(60));

  it.each(cases)("shows $name as Rust does", (one) => {
    expect(escapeHidden(one.text)).toBe(one.exact);
    expect(escapeHiddenLine(one.text)).toBe(one.exact_line);
    expect(sanitize(one.text)).toBe(one.prose);
  });
});
