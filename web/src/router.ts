// The router. The address holds the current place, so that a reload or a shared link shows the same.
import { computed, signal } from "@preact/signals";

export type Place =
  | { page: "tasks" }
  | { page: "task"; id: string; tab: string }
  | { page: "timeline"; id: string | null }
  | { page: "chat"; session: string | null }
  | { page: "agents"; name: string | null }
  | { page: "approvals" }
  | { page: "stats" }
  | { page: "unknown"; path: string };

export function parse(pathname: string): Place {
  const parts = pathname.split("/").filter(Boolean).map(decode);
  const [first, second, third] = parts;
  switch (first) {
    case "tasks":
      return second ? { page: "task", id: second, tab: third ?? "" } : { page: "tasks" };
    case "timeline":
      return { page: "timeline", id: second ?? null };
    case "chat":
      return { page: "chat", session: second ?? null };
    case "agents":
      return { page: "agents", name: second ?? null };
    case "approvals":
      return { page: "approvals" };
    case "stats":
      return { page: "stats" };
    case undefined:
    case "index.html":
      return { page: "tasks" };
    default:
      return { page: "unknown", path: pathname };
  }
}

/** Decodes a part of a path; a typed address may contain an invalid escape. */
function decode(part: string): string {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

export function href(place: Place): string {
  const part = encodeURIComponent;
  switch (place.page) {
    case "tasks":
      return "/tasks";
    case "task":
      return `/tasks/${part(place.id)}${place.tab ? `/${part(place.tab)}` : ""}`;
    case "timeline":
      return place.id ? `/timeline/${part(place.id)}` : "/timeline";
    case "chat":
      return place.session ? `/chat/${part(place.session)}` : "/chat";
    case "agents":
      return place.name ? `/agents/${part(place.name)}` : "/agents";
    case "approvals":
      return "/approvals";
    case "stats":
      return "/stats";
    case "unknown":
      return place.path;
  }
}

const address = signal(location.pathname);
addEventListener("popstate", () => (address.value = location.pathname));

export const place = computed<Place>(() => parse(address.value));

export function go(to: Place | string, replace = false): void {
  const target = typeof to === "string" ? to : href(to);
  if (target !== location.pathname + location.search)
    history[replace ? "replaceState" : "pushState"](null, "", target);
  address.value = location.pathname;
}

/** Opens links of the page without a reload. New tabs and other hosts are left to the browser. */
export function followLinks(event: MouseEvent): void {
  if (
    event.defaultPrevented ||
    event.button !== 0 ||
    event.metaKey ||
    event.ctrlKey ||
    event.shiftKey ||
    event.altKey
  )
    return;
  const link = (event.target as Element | null)?.closest?.("a");
  if (!link || link.target || link.origin !== location.origin || link.pathname.startsWith("/api")) return;
  event.preventDefault();
  go(link.pathname + link.search);
}
