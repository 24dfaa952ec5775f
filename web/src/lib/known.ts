// What the API tells by a word of few: a newer server, under a page that is open, may tell one that this page does not know. That is shown as it is, and
// nothing else of the screen suffers.
import type { Tone } from "../components/Mark";
import type { Translate, Word } from "../i18n";
import { visible } from "./visible";

function known<V>(words: Readonly<Record<string, V>>, value: string): V | undefined {
  return Object.hasOwn(words, value) ? words[value] : undefined;
}

/** What the page says of it. */
export function wordOf<K extends string>(words: Readonly<Record<K, Word>>, value: K, t: Translate): string {
  const word = known<Word>(words, value);
  return word === undefined ? visible(String(value)) : t(word);
}

/** The same, and the ground that it has. */
export function markOf<K extends string>(
  marks: Readonly<Record<K, readonly [Tone, Word]>>,
  value: K,
  t: Translate,
): readonly [Tone, string] {
  const mark = known<readonly [Tone, Word]>(marks, value);
  return mark === undefined ? ["plain", visible(String(value))] : [mark[0], t(mark[1])];
}
