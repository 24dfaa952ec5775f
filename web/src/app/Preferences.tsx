import { Button } from "antd";
import { useQueryClient } from "@tanstack/react-query";
import { useThing } from "../api/queries";
import { setToken, useToken } from "../api/token";
import { Choice } from "../components/Choice";
import { Name } from "../components/Name";
import { useSpeech } from "../i18n";
import type { Language } from "../i18n";
import { placeHref } from "../lib/router";
import { useSettings } from "./settings";
import type { Theme } from "./settings";

function LogOut() {
  const { t } = useSpeech();
  const queries = useQueryClient();
  const leave = () => {
    setToken(null);
    // Nothing of what they have read stays in the page.
    void queries.resetQueries();
  };
  return (
    <Button size="small" onClick={leave}>
      {t("login.out")}
    </Button>
  );
}

/** Who looks, by what role; a phone has no room for it. */
function Who() {
  const { data } = useThing("/api/v1/self");
  if (data === undefined) return null;
  const { name, role } = data.data;
  return (
    <a className="who" href={placeHref(["tokens"])}>
      <Name text={`${name} (${role})`} />
    </a>
  );
}

/** Who looks, theme, language, and the way out. */
export function Preferences() {
  const { t } = useSpeech();
  const { theme, setTheme, language, setLanguage } = useSettings();
  const isLoggedIn = useToken() !== null;
  return (
    <div className="preferences">
      <Who />
      <Choice<Theme>
        label={t("frame.theme")}
        value={theme}
        onChange={setTheme}
        options={[
          ["system", t("frame.theme.system")],
          ["light", t("frame.theme.light")],
          ["dark", t("frame.theme.dark")],
        ]}
      />
      <Choice<Language>
        label={t("frame.language")}
        value={language}
        onChange={setLanguage}
        options={[
          ["en", "English"],
          ["zh", "中文"],
        ]}
      />
      {isLoggedIn ? <LogOut /> : null}
    </div>
  );
}
