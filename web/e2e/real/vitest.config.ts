import { defineConfig } from "vitest/config";

export default defineConfig({
  test: {
    include: ["e2e/real/*.real.ts"],
    environment: "node",
    // A cluster starts and ends within, and one of its nodes is waited for until it is known to be dead.
    testTimeout: 120_000,
    hookTimeout: 180_000,
    fileParallelism: false,
    // A day's journeys follow one another: what one makes the next one uses.
    bail: 1,
  },
});
