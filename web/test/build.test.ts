// @vitest-environment node
// The built page: its size, and that it contains nothing that the content security policy forbids.
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { build } from "vite";

const MOST_BYTES = 60_000;
let dist = "";

beforeAll(async () => {
  dist = await mkdtemp(join(tmpdir(), "sortie-page-"));
  await build({ logLevel: "error", build: { outDir: dist, emptyOutDir: true } });
});
afterAll(() => rm(dist, { recursive: true, force: true }));

const read = (name: string) => readFile(join(dist, name), "utf8");

describe("the built page", () => {
  it("stays within the size limit for the first load", async () => {
    const index = await read("index.html");
    const scripts = [...index.matchAll(/(?:src|href)="\/(assets\/[^"]+\.js)"/g)].map((found) => found[1]!);
    expect(scripts.length).toBeGreaterThan(0);
    const sizes = await Promise.all(scripts.map(async (name) => gzipSync(await read(name)).length));
    expect(sizes.reduce((sum, size) => sum + size, 0)).toBeLessThanOrEqual(MOST_BYTES);
  });
  it("contains no inline code and no external resources", async () => {
    const index = await read("index.html");
    expect(index).not.toMatch(/<style|style=|javascript:|https?:/);
    for (const [, inner] of index.matchAll(/<script[^>]*>([^<]*)<\/script>/g)) expect(inner).toBe("");
  });
  it("creates no HTML from strings and evaluates no code", async () => {
    const names = (await readdir(join(dist, "assets"))).filter((name) => name.endsWith(".js"));
    for (const name of names) {
      const text = await read(join("assets", name));
      // Preact contains the name of the property; the page does not use it.
      expect(text.replaceAll("dangerouslySetInnerHTML", ""), name).not.toMatch(
        /insertAdjacentHTML|outerHTML|document\.write|\beval\(|new Function\(|srcdoc/,
      );
    }
    const sources = (await readdir("src", { recursive: true })).filter((name) => /\.tsx?$/.test(name));
    for (const name of sources)
      expect(await readFile(join("src", name), "utf8"), name).not.toMatch(
        /innerHTML|dangerouslySet|outerHTML|insertAdjacentHTML|setAttribute\(\s*"style"/,
      );
  });
});
