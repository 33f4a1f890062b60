// The second secret of a login. Browsers send the cookie to every port of a host, so the server wants this
// key beside it. It is kept in the storage of the page, which belongs to one origin including its port.

const NAME = "sortie.page-key";
const FRAGMENT = "#page-key=";
/** Letters of base64url: what the server makes, and what a header and a subprotocol can carry. */
const SHAPE = /^[A-Za-z0-9_-]{20,100}$/;

/** The key where the browser blocks storage: it lives as long as the tab. */
let unstored: string | null = null;

/** Takes the key out of the address that a login leads to, before anything else reads the address. */
export function takePageKey(): void {
  if (!location.hash.startsWith(FRAGMENT)) return;
  const key = location.hash.slice(FRAGMENT.length);
  history.replaceState(null, "", location.pathname + location.search);
  if (!SHAPE.test(key)) return;
  try {
    localStorage.setItem(NAME, key);
    unstored = null;
  } catch {
    // Blocked storage: this tab works, a reload asks for a login and says why.
    unstored = key;
  }
}

/** The key of the latest login in this browser: another tab may have logged in since. */
export function pageKey(): string | null {
  try {
    const stored = localStorage.getItem(NAME);
    return stored && SHAPE.test(stored) ? stored : unstored;
  } catch {
    return unstored;
  }
}

export function forgetPageKey(): void {
  unstored = null;
  try {
    localStorage.removeItem(NAME);
  } catch {
    // Nothing was stored.
  }
}

/** Calls back when another tab logs in or out. */
export function onPageKeyChange(changed: (key: string | null) => void): void {
  addEventListener("storage", (event) => {
    // A cleared storage has no name.
    if (event.key === NAME || event.key === null) changed(pageKey());
  });
}

/** What a WebSocket offers in place of headers, which a page cannot set: our protocol, and the key. */
export function socketProtocols(): string[] {
  const key = pageKey();
  return key ? ["sortie", `sortie.page-key.${key}`] : ["sortie"];
}
