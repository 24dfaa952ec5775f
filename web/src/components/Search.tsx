import { useSpeech } from "../i18n";
import { replaceQuery, usePlace } from "../lib/router";

/** What is searched for on this screen: it is in the address, so that a search can be linked to. */
export function useSearch(): string {
  return (usePlace().query.get("q") ?? "").toLowerCase();
}

/** Does one of the texts contain what is searched for? */
export function matches(search: string, ...texts: readonly (string | null | undefined)[]): boolean {
  return search === "" || texts.some((text) => text?.toLowerCase().includes(search));
}

export function Search({ label }: { label: string }) {
  const { t } = useSpeech();
  const search = usePlace().query.get("q") ?? "";
  return (
    <input
      type="search"
      className="field"
      aria-label={label}
      placeholder={`${t("frame.search")} ( / )`}
      value={search}
      spellCheck={false}
      onChange={(event) => replaceQuery({ q: event.target.value })}
    />
  );
}
