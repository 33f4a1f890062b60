// The page key: moved from the address to the storage of the origin, sent with every request.
import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { get, loggedOut } from "../src/api/client";
import { forgetPageKey, onPageKeyChange, pageKey, socketProtocols, takePageKey } from "../src/api/page-key";

const KEY = "A-b_".repeat(10);
const OTHER = "Z".repeat(43);

function arrive(hash: string): void {
  history.replaceState(null, "", `/tasks?x=1${hash}`);
  takePageKey();
}

describe("the page key", () => {
  beforeEach(() => {
    localStorage.clear();
    loggedOut.value = null;
  });
  afterEach(() => {
    vi.restoreAllMocks();
    vi.unstubAllGlobals();
    forgetPageKey();
  });

  it("moves from the address into the storage of the origin", () => {
    arrive(`#page-key=${KEY}`);
    expect(location.href).toMatch(/\/tasks\?x=1$/);
    expect(pageKey()).toBe(KEY);
    expect(Object.values(localStorage)).toEqual([KEY]);
    expect(socketProtocols()).toEqual(["sortie", `sortie.page-key.${KEY}`]);
  });

  it("is rejected if a header could not carry it", () => {
    for (const hash of [
      "#page-key=",
      "#page-key=a,b",
      `#page-key=${KEY}%0d%0ax`,
      "#other",
      `#page-key=${"x".repeat(200)}`,
    ])
      arrive(hash);
    expect(pageKey()).toBeNull();
    expect(socketProtocols()).toEqual(["sortie"]);
  });

  it("is that of the latest login in any tab, and is removed by a logout", () => {
    arrive(`#page-key=${KEY}`);
    localStorage.setItem("sortie.page-key", OTHER);
    expect(pageKey()).toBe(OTHER);
    const heard: (string | null)[] = [];
    onPageKeyChange((key) => heard.push(key));
    dispatchEvent(new StorageEvent("storage", { key: "other" }));
    dispatchEvent(new StorageEvent("storage", { key: "sortie.page-key" }));
    forgetPageKey();
    dispatchEvent(new StorageEvent("storage", { key: null }));
    expect(heard).toEqual([OTHER, null]);
    expect(pageKey()).toBeNull();
  });

  it("lasts as long as the tab if storage is blocked", () => {
    const blocked = () => {
      throw new DOMException("blocked", "SecurityError");
    };
    vi.spyOn(Storage.prototype, "setItem").mockImplementation(blocked);
    vi.spyOn(Storage.prototype, "getItem").mockImplementation(blocked);
    vi.spyOn(Storage.prototype, "removeItem").mockImplementation(blocked);
    arrive(`#page-key=${KEY}`);
    expect(pageKey()).toBe(KEY);
    forgetPageKey();
    expect(pageKey()).toBeNull();
  });

  it("is sent with every request; a missing key is distinguished from an expired login", async () => {
    const sent: Record<string, string>[] = [];
    vi.stubGlobal("fetch", (_: string, request: RequestInit) => {
      sent.push(request.headers as Record<string, string>);
      return Promise.resolve(new Response("{}", { status: 401 }));
    });
    arrive(`#page-key=${KEY}`);
    await expect(get("/api/me")).rejects.toMatchObject({ status: 401 });
    expect(loggedOut.value).toBe("ended");
    forgetPageKey();
    await expect(get("/api/me")).rejects.toMatchObject({ status: 401 });
    expect(loggedOut.value).toBe("no-page-key");
    expect(sent.map((headers) => headers["sortie-page-key"])).toEqual([KEY, undefined]);
  });
});
