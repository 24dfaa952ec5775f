import type { ReactNode } from "react";

export type Tone = "good" | "busy" | "odd" | "bad" | "plain";

/** A word with a ground that says how things are; the word says it as well. */
export function Mark({ tone = "plain", children }: { tone?: Tone; children: ReactNode }) {
  return <span className={`mark mark-${tone}`}>{children}</span>;
}
