// @vitest-environment node
// The page is a client of the public API and nothing else: its types come from the checked-in document, and
// every address it asks is in it.
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, it } from "vitest";

const DOCUMENT = "../crates/server/openapi.json";

// Built from an archive of the page alone, there is nothing to compare with.
describe.skipIf(!existsSync(DOCUMENT))("the API", () => {
  it("is the one that the types were generated from; `npm run api` makes them anew", async () => {
    const checked = execFileSync(
      process.execPath,
      ["node_modules/openapi-typescript/bin/cli.js", DOCUMENT, "-o", "src/api/schema.ts", "--check"],
      { encoding: "utf8" },
    );
    expect(checked).toBeDefined();
  });

  it("has every address that the page asks", async () => {
    const { paths } = JSON.parse(await readFile(DOCUMENT, "utf8")) as { paths: Record<string, object> };
    const known = new Set(Object.keys(paths).map((path) => path.replace(/\{\w+\}/g, "{}")));
    const asked = new Map<string, string>();
    for (const name of await readdir("src", { recursive: true })) {
      if (!/\.tsx?$/.test(name) || name.endsWith("schema.ts")) continue;
      const text = await readFile(join("src", name), "utf8");
      for (const [, path] of text.matchAll(/["`](\/api\/[^"`?]+)/g))
        asked.set(path!.replace(/\$\{[^}]+\}/g, "{}"), name);
    }
    // One place fills in pause or resume.
    asked.delete("/api/tasks/{}/{}");
    expect(asked.size).toBeGreaterThan(20);
    expect([...asked].filter(([path]) => !known.has(path))).toEqual([]);
  });
});
