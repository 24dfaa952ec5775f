/** Names that strangers chose. */
export const HOSTILE = [
  "<img src=x onerror=window.hacked=1>",
  "abc\u202Egnp.exe\u202C",
  `long-${"x".repeat(195)}`,
  "'; $(touch hacked) `id` \"",
];
