// The second secret of a login. Browsers send the cookie to every port of a host, so the server requires this
// key as well. The page keeps it in its storage, which belongs to one origin including the port.

const NAME = "sortie.page-key";
const FRAGMENT = "#page-key=";
/** Characters of base64url, as the server creates them; safe in a header and in a subprotocol. */
const SHAPE = /^[A-Za-z0-9_-]{20,100}$/;

/** The key if the browser blocks storage; it lasts as long as the tab. */
let unstored: string | null = null;

/** Moves the key from the address that a login opens to the storage, before other code reads the address. */
export function takePageKey(): void {
  if (!location.hash.startsWith(FRAGMENT)) return;
  const key = location.hash.slice(FRAGMENT.length);
  history.replaceState(null, "", location.origin + location.pathname + location.search);
  if (!SHAPE.test(key)) return;
  try {
    localStorage.setItem(NAME, key);
    unstored = null;
  } catch {
    // Storage is blocked: this tab works; after a reload the page shows the login screen with the reason.
    unstored = key;
  }
}

/** Returns the key of the latest login in this browser, which may be that of another tab. */
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

/** Returns the subprotocols of the WebSocket. They carry the key, as a page cannot set headers for it. */
export function socketProtocols(): string[] {
  const key = pageKey();
  return key ? ["sortie", `sortie.page-key.${key}`] : ["sortie"];
}
