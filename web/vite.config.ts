import { defineConfig } from "vitest/config";

// The real server during `npm run dev`, for those who work on the page.
const server = "http://127.0.0.1:7878";

export default defineConfig({
  base: "/",
  oxc: { jsx: { runtime: "automatic", importSource: "preact" } },
  build: {
    target: "es2022",
    // `light-dark()` is what both themes are made of.
    cssTarget: ["chrome123", "firefox120", "safari17.5"],
    outDir: "dist",
    // Nothing inline: the content security policy allows files of our own only.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    sourcemap: false,
    reportCompressedSize: false,
  },
  server: { proxy: { "/api": { target: server, ws: true }, "/login": server } },
  // Generous: a busy machine is no mistake of the page.
  test: {
    environment: "jsdom",
    testTimeout: 60_000,
    hookTimeout: 120_000,
    include: ["test/**/*.test.{ts,tsx}"],
  },
});
