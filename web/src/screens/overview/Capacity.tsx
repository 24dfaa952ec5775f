import { Meter } from "../../components/Meter";
import type { components } from "../../api/schema";
import { useSpeech } from "../../i18n";
import { fullSoon } from "../../lib/forecast";
import { formatBytes, formatDuration, percent } from "../../lib/format";
import type { Store } from "../nodes/StoreList";

type Forecast = components["schemas"]["Forecast"];

const DAY_S = 86_400;

/** When there will be no room, where that is soon. */
function Outlook({ forecast }: { forecast: Forecast | null | undefined }) {
  const { t } = useSpeech();
  const full = fullSoon(forecast);
  if (full === undefined) return null;
  const { days, soonest, latest, bytesPerDay } = full;
  const time = (days: number) => formatDuration(days * DAY_S);
  return (
    <div>
      <div>{t("overview.capacity.full", { time: time(days), bytes: formatBytes(bytesPerDay) })}</div>
      <div className="faint">
        {latest === undefined
          ? t("overview.capacity.perhaps", { soonest: time(soonest) })
          : t("overview.capacity.between", { soonest: time(soonest), latest: time(latest) })}
      </div>
    </div>
  );
}

/** How much room all stores have together that say so, and for how long it lasts. */
export function Capacity({ stores, forecast }: { stores: readonly Store[]; forecast: Forecast | null | undefined }) {
  const { t } = useSpeech();
  const used = stores.reduce((sum, store) => sum + (store.used_bytes ?? 0), 0);
  const all = stores.reduce((sum, store) => sum + (store.capacity_bytes ?? 0), 0);
  const silent = stores.filter((store) => store.capacity_bytes == null).length;
  return (
    <section className="card">
      <h2>{t("overview.capacity")}</h2>
      <div className="figure">{percent(used, all)} %</div>
      <Meter label={t("overview.capacity")} part={used} whole={all} />
      <div>{t("store.used_of", { used: formatBytes(used), all: formatBytes(all) })}</div>
      <div className="faint">
        {silent === 0 ? t("overview.capacity.about") : t("overview.capacity.silent", { count: silent })}
      </div>
      <Outlook forecast={forecast} />
    </section>
  );
}
