// The page's words, in two languages: English is in the entry, Chinese is loaded when it is wanted. Sentences of the
// cluster (facts, problems, events) come from the API, in English.
import { createContext, useContext, useEffect, useMemo, useState } from "react";
import type { ReactNode } from "react";
import { visible } from "../lib/visible";
import { en } from "./en";

export type Language = "en" | "zh";
export type Word = keyof typeof en;
export type Dictionary = Readonly<Record<Word, string>>;
/** A word in the language that is set, with `{name}` replaced by what is given: that may be a stranger's. */
export type Translate = (word: Word, values?: Readonly<Record<string, string | number>>) => string;

export function translator(words: Dictionary): Translate {
  return (word, values = {}) =>
    words[word].replace(/\{(\w+)\}/g, (whole, name: string) => visible(String(values[name] ?? whole)));
}

interface Speech {
  readonly language: Language;
  /** For `Intl`. */
  readonly locale: string;
  readonly t: Translate;
}

const Context = createContext<Speech>({ language: "en", locale: "en-US", t: translator(en) });

/** The words of a language; undefined until they are there. Where they cannot be had, English has to do. */
function useWords(language: Language): Dictionary | undefined {
  const [chinese, setChinese] = useState<Dictionary>();
  const isWanted = language === "zh" && chinese === undefined;
  useEffect(() => {
    if (!isWanted) return;
    import("./zh").then(({ zh }) => setChinese(zh)).catch(() => setChinese(en));
  }, [isWanted]);
  return language === "zh" ? chinese : en;
}

export function SpeechProvider({ language, children }: { language: Language; children: ReactNode }) {
  const words = useWords(language);
  const speech = useMemo(
    () => ({ language, locale: language === "zh" ? "zh-CN" : "en-US", t: translator(words ?? en) }),
    [language, words],
  );
  return words === undefined ? null : <Context.Provider value={speech}>{children}</Context.Provider>;
}

export function useSpeech(): Speech {
  return useContext(Context);
}
