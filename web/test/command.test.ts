import { execFileSync } from "node:child_process";
import { describe, expect, it } from "vitest";
import type { Call } from "../src/api/call";
import { amitaCommand, curlCommand, shellQuote } from "../src/lib/command";

const HOSTILE = [
  "",
  "plain",
  "it's",
  "$(touch x) `id`",
  "a b",
  "*",
  "'; rm -rf /",
  "back\\slash",
  "\u202Eturned'\\",
  "line\nbreak",
  "~",
  "é中",
];

describe("words of a shell", () => {
  it.each(HOSTILE)("%j is read back as it was", (word) => {
    const read = execFileSync("bash", ["--norc", "-c", `printf %s ${shellQuote(word)}`], {
      env: { LC_ALL: "C.UTF-8", PATH: process.env.PATH },
      stdio: ["ignore", "pipe", "inherit"],
    });
    expect(read.toString()).toBe(word);
  });

  it("nothing that is not seen is left", () => expect(shellQuote("a\u202Eb")).toBe("$'a\\u202eb'"));
});

it("a command leaves out what is not given", () => {
  expect(amitaCommand("volume", "protect", "db 1", undefined)).toBe("amita volume protect 'db 1'");
});

it("options of curl stand behind the call", () => {
  const call: Call = { method: "get", address: "/api/v1/volumes/db/export", headers: {} };
  expect(curlCommand(call, "https://n1", true, ["-o db.raw"])).toMatch(
    /"Authorization: Bearer \$AMITA_TOKEN" \\\n {2}-o db\.raw$/,
  );
});

describe("curl", () => {
  const call: Call = {
    method: "delete",
    address: "/api/v1/volumes/db%201?now=true",
    headers: { "If-Match": '"abc"' },
    body: { name: "it's \u202E" },
  };

  it("has method, address, headers and body, and never the token", () => {
    expect(curlCommand(call, "https://n1:7780", true).split(" \\\n  ")).toEqual([
      "curl -X DELETE 'https://n1:7780/api/v1/volumes/db%201?now=true'",
      '-H "Authorization: Bearer $AMITA_TOKEN"',
      "-H 'If-Match: \"abc\"'",
      "-H 'Content-Type: application/json'",
      `--data '{"name":"it'\\''s \\u202e"}'`,
    ]);
  });

  it("shows a certificate where nobody has logged in", () => {
    expect(curlCommand({ method: "post", address: "/x", headers: {} }, "https://n1", false)).toContain(
      "--cert operator.pem",
    );
  });
});
