import react from "@vitejs/plugin-react";
import { defineConfig } from "vitest/config";

export default defineConfig({
  base: "./",
  plugins: [react()],
  // The server puts a fresh nonce in the place of this word each time it serves index.html.
  html: { cspNonce: "__AMITA_CSP_NONCE__" },
  build: {
    target: "es2022",
    // No data: URLs, so that the policy of content need not allow them.
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    reportCompressedSize: true,
    chunkSizeWarningLimit: 1200,
  },
  server: {
    proxy: { "/api": { target: process.env.AMITA_API ?? "http://127.0.0.1:7780", secure: false } },
  },
  test: { include: ["test/**/*.test.ts"], environment: "node" },
});
