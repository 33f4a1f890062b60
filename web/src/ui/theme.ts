// The colour theme: light, dark, or that of the system.
import { effect, signal } from "@preact/signals";

export type Theme = "auto" | "light" | "dark";
const KEPT = "sortie.theme";
const kept = localStorage.getItem(KEPT);

export const theme = signal<Theme>(kept === "light" || kept === "dark" ? kept : "auto");

effect(() => {
  if (theme.value === "auto") {
    localStorage.removeItem(KEPT);
    delete document.documentElement.dataset.theme;
  } else {
    localStorage.setItem(KEPT, theme.value);
    document.documentElement.dataset.theme = theme.value;
  }
});

/** Switches to the opposite of the visible theme, then to the other one, then back to the system's. */
export function cycle(): void {
  const dark = matchMedia("(prefers-color-scheme: dark)").matches;
  const order: Theme[] = dark ? ["auto", "light", "dark"] : ["auto", "dark", "light"];
  theme.value = order[(order.indexOf(theme.value) + 1) % order.length]!;
}
