import { Meter } from "../../components/Meter";
import { useSpeech } from "../../i18n";
import { formatBytes, percent } from "../../lib/format";
import type { Store } from "../nodes/StoreList";

/** How much room all stores have together that say so. */
export function Capacity({ stores }: { stores: readonly Store[] }) {
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
    </section>
  );
}
