// A pool's rule: what of it is to be another, as a body and as words of the command.
import type { components } from "../api/schema";

export interface Rule {
  readonly copies: number;
  readonly level: components["schemas"]["Level"];
  /** Empty: stores of any class. */
  readonly class: string;
}

/** What makes a rule that is as `from` into one that is as `to`. */
export function poolChange(from: Rule, to: Rule): { body: components["schemas"]["PoolChange"]; words: string[] } {
  const body: components["schemas"]["PoolChange"] = {};
  const words: string[] = [];
  if (to.copies !== from.copies) {
    body.copies = to.copies;
    words.push("--copies", String(to.copies));
  }
  if (to.level !== from.level) {
    body.level = to.level;
    words.push("--failure-domain", to.level);
  }
  if (to.class !== from.class) {
    body.class = to.class === "" ? null : to.class;
    words.push(...(to.class === "" ? ["--any-class"] : ["--class", to.class]));
  }
  return { body, words };
}
