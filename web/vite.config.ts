import { defineConfig } from "vitest/config";

// The server that `npm run dev` forwards requests to.
const server = "http://127.0.0.1:7878";

export default defineConfig({
  base: "/",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    target: "es2022",
    // The oldest browsers that support `light-dark()`, which both themes use.
    cssTarget: ["chrome123", "firefox120", "safari17.5"],
    outDir: "dist",
    // No inlined assets: the content security policy allows only files of the same origin.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
    reportCompressedSize: false,
  },
  server: { proxy: { "/api": { target: server, ws: true }, "/login": server } },
  // Long limits, as the machine may be busy.
  test: {
    environment: "jsdom",
    testTimeout: 60_000,
    hookTimeout: 120_000,
    include: ["test/**/*.test.{ts,tsx}"],
  },
});
