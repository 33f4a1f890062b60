// Loads the Markdown parser with the first text, so that the task list does not wait for it.
import { signal } from "@preact/signals";
import type { FunctionComponent } from "preact";
import { useEffect } from "preact/hooks";
import { sanitize } from "./sanitize";

const real = signal<FunctionComponent<{ text: string }> | null>(null);

export function Markdown({ text }: { text: string }) {
  useEffect(() => {
    if (!real.peek()) void import("./index").then((loaded) => (real.value = loaded.Markdown));
  }, []);
  const Real = real.value;
  return Real ? <Real text={text} /> : <div class="md">{sanitize(text.slice(0, 4_000))}</div>;
}
