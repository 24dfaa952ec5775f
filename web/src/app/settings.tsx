// What whoever looks has set for themselves: the theme and the language. Both are kept by the browser.
import { createContext, useContext, useEffect, useMemo, useState, useSyncExternalStore } from "react";
import type { ReactNode } from "react";
import type { Language } from "../i18n";

export type Theme = "system" | "light" | "dark";

interface Settings {
  readonly theme: Theme;
  /** What the theme comes to: that of the system where none is set. */
  readonly dark: boolean;
  readonly language: Language;
  readonly setTheme: (theme: Theme) => void;
  readonly setLanguage: (language: Language) => void;
}

const THEME = "amita-theme";
const LANGUAGE = "amita-language";
const DARK = "(prefers-color-scheme: dark)";

function storedTheme(): Theme {
  const stored = window.localStorage.getItem(THEME);
  return stored === "light" || stored === "dark" ? stored : "system";
}

function storedLanguage(): Language {
  const stored = window.localStorage.getItem(LANGUAGE) ?? window.navigator.language;
  return stored.startsWith("zh") ? "zh" : "en";
}

function subscribeDark(changed: () => void): () => void {
  const query = window.matchMedia(DARK);
  query.addEventListener("change", changed);
  return () => query.removeEventListener("change", changed);
}

function useSystemDark(): boolean {
  return useSyncExternalStore(subscribeDark, () => window.matchMedia(DARK).matches);
}

const Context = createContext<Settings | null>(null);

export function SettingsProvider({ children }: { children: ReactNode }) {
  const [theme, setTheme] = useState(storedTheme);
  const [language, setLanguage] = useState(storedLanguage);
  const systemDark = useSystemDark();
  const dark = theme === "system" ? systemDark : theme === "dark";
  useEffect(() => {
    window.localStorage.setItem(THEME, theme);
    document.documentElement.dataset.theme = dark ? "dark" : "light";
  }, [theme, dark]);
  useEffect(() => {
    window.localStorage.setItem(LANGUAGE, language);
    document.documentElement.lang = language === "zh" ? "zh-CN" : "en";
  }, [language]);
  const settings = useMemo(() => ({ theme, dark, language, setTheme, setLanguage }), [theme, dark, language]);
  return <Context.Provider value={settings}>{children}</Context.Provider>;
}

export function useSettings(): Settings {
  const settings = useContext(Context);
  if (settings === null) throw new Error("there is no SettingsProvider around this");
  return settings;
}
