// Labels as a person writes them: a line each, KEY=VALUE.

export type LabelMap = Readonly<Record<string, string>>;

/** The labels of these lines; undefined where a line has no `=`, nothing before it, or a key that was there before. */
export function parseLabels(text: string): LabelMap | undefined {
  const labels: Record<string, string> = {};
  for (const line of text.split("\n").map((line) => line.trim())) {
    if (line === "") continue;
    const mark = line.indexOf("=");
    const key = line.slice(0, Math.max(mark, 0)).trim();
    if (key === "" || Object.hasOwn(labels, key)) return undefined;
    labels[key] = line.slice(mark + 1).trim();
  }
  return labels;
}

export function writeLabels(labels: LabelMap): string {
  return Object.entries(labels)
    .map(([key, value]) => `${key}=${value}`)
    .join("\n");
}

/** What makes the one set into the other: keys that go are null. */
export function labelChange(from: LabelMap, to: LabelMap): Record<string, string | null> {
  const change: Record<string, string | null> = {};
  for (const key of Object.keys(from)) if (!Object.hasOwn(to, key)) change[key] = null;
  for (const [key, value] of Object.entries(to)) if (from[key] !== value) change[key] = value;
  return change;
}
