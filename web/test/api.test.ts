// @vitest-environment node
// The types of the page come from the checked-in document of the API.
import { execFileSync } from "node:child_process";
import { existsSync } from "node:fs";
import { describe, expect, it } from "vitest";

const DOCUMENT = "../crates/server/openapi.json";
const GENERATOR = "node_modules/openapi-typescript/bin/cli.js";

// An archive of the page alone has no document to compare with.
describe.skipIf(!existsSync(DOCUMENT))("schema.ts", () => {
  it("matches the OpenAPI document (`npm run api` regenerates it)", () => {
    const check = () =>
      execFileSync(process.execPath, [GENERATOR, DOCUMENT, "-o", "src/api/schema.ts", "--check"]);
    expect(check).not.toThrow();
  });
});
