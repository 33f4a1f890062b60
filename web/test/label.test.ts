import { describe, expect, it } from "vitest";
import { labelOf } from "../src/live/label";

describe("labels", () => {
  const message = "Please migrate our passwords from md5 to argon2.\nKeep old hashes valid.";
  it.each([
    ["a short label stays", "migrate", message, "migrate"],
    ["a cut label becomes the first line", "Please migrate our passwords f", message, message.split("\n")[0]],
    ["so does one with an ellipsis", "Please migrate our passwords…", message, message.split("\n")[0]],
    ["a long label of its own stays", "A label that somebody has written", message, undefined],
    [
      "a whole first line stays",
      "A line of exactly thirty signs",
      "A line of exactly thirty signs",
      undefined,
    ],
  ])("%s", (_, label, message, shown) => {
    expect(labelOf({ label, message })).toBe(shown ?? label);
  });
  it("are one line without hidden characters, truncated with an ellipsis", () => {
    const label = "x".repeat(30);
    expect(labelOf({ label, message: `${label}${"y".repeat(500)}` })).toBe(`${label}${"y".repeat(130)}…`);
    expect(labelOf({ label: "a\nb\u202ec", message: "" })).not.toMatch(/[\n\u202e]/);
  });
});
