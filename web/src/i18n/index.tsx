// The page's words, in two languages. Sentences of the cluster (facts, problems, events) come from the API, in English.
import { createContext, useContext } from "react";
import type { ReactNode } from "react";
import { visible } from "../lib/visible";
import { en } from "./en";
import { zh } from "./zh";

export type Language = "en" | "zh";
export type Word = keyof typeof en;
export type Dictionary = Readonly<Record<Word, string>>;
/** A word in the language that is set, with `{name}` replaced by what is given: that may be a stranger's. */
export type Translate = (word: Word, values?: Readonly<Record<string, string | number>>) => string;

const DICTIONARIES: Readonly<Record<Language, Dictionary>> = { en, zh };

export function translator(language: Language): Translate {
  const words = DICTIONARIES[language];
  return (word, values = {}) =>
    words[word].replace(/\{(\w+)\}/g, (whole, name: string) => visible(String(values[name] ?? whole)));
}

interface Speech {
  readonly language: Language;
  /** For `Intl`. */
  readonly locale: string;
  readonly t: Translate;
}

const Context = createContext<Speech>({ language: "en", locale: "en-US", t: translator("en") });

export function SpeechProvider({ language, children }: { language: Language; children: ReactNode }) {
  const speech = { language, locale: language === "zh" ? "zh-CN" : "en-US", t: translator(language) };
  return <Context.Provider value={speech}>{children}</Context.Provider>;
}

export function useSpeech(): Speech {
  return useContext(Context);
}
