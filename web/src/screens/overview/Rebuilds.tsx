import { Meter } from "../../components/Meter";
import { Name } from "../../components/Name";
import { useSpeech } from "../../i18n";
import type { Store } from "../nodes/StoreList";

/** Stores that are being brought up to date. */
export function Rebuilds({ stores }: { stores: readonly Store[] }) {
  const { t } = useSpeech();
  const syncing = stores.filter((store) => store.syncing > 0);
  return (
    <section className="card">
      <h2>{t("overview.rebuilds")}</h2>
      {syncing.length === 0 ? <p>{t("overview.rebuilds.none")}</p> : null}
      <ul className="facts">
        {syncing.map((store) => (
          <li key={store.id}>
            <Name text={store.node} /> <Name text={store.path} />
            <div>{t("overview.rebuilds.groups", { count: store.syncing, done: store.in_sync, all: store.groups })}</div>
            <Meter label={t("overview.rebuilds")} part={store.in_sync} whole={store.groups} isFine />
          </li>
        ))}
      </ul>
    </section>
  );
}
