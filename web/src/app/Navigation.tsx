import { useSpeech } from "../i18n";
import { placeHref } from "../lib/router";
import { SCREENS } from "./screens";

export function Navigation({ current }: { current: string }) {
  const { t } = useSpeech();
  return (
    <nav aria-label={t("frame.navigation")}>
      <ul>
        {SCREENS.map(({ id, title, key }) => (
          <li key={id}>
            <a href={placeHref([id])} aria-current={id === current ? "page" : undefined} title={`g ${key}`}>
              {t(title)}
            </a>
          </li>
        ))}
      </ul>
    </nav>
  );
}
