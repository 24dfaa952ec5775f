// A volume moves to another pool, with its snapshots, while hosts go on using it.
import { call } from "../../api/call";
import { useList } from "../../api/queries";
import { ActionDialog } from "../../components/ActionDialog";
import { RateField } from "../../components/fields";
import { NamesField } from "../../components/inputs";
import { useSpeech } from "../../i18n";
import { amitaCommand } from "../../lib/command";
import { bytesArgument, parseRate } from "../../lib/format";
import { replaceQuery } from "../../lib/router";
import type { Volume } from "./VolumeList";

interface Values {
  pool?: string;
  rate: string;
}

function plan(name: string, { pool = "", rate }: Values) {
  const limit = parseRate(rate) ?? undefined;
  const body = { pool, ...(limit === undefined ? {} : { limit_bytes_per_second: limit }) };
  const words = limit === undefined ? [] : ["--limit-rate", bytesArgument(limit)];
  return {
    call: call("post", "/api/v1/volumes/{name}/migrate", { params: { path: { name } }, body }),
    command: amitaCommand("volume", "migrate", name, "--pool", pool, ...words, "--no-wait"),
  };
}

export function MigrateVolume({ volume, onClose }: { volume: Volume; onClose: () => void }) {
  const { t } = useSpeech();
  const { name, pool } = volume;
  const pools = useList("/api/v1/pools");
  const others = pools.items.map((one) => one.name).filter((one) => one !== pool);
  const initial: Values = { rate: "" };
  return (
    <ActionDialog
      title={t("migrate.title", { name })}
      verb={t("migrate.migrate")}
      about={t("migrate.about", { pool })}
      initial={initial}
      fields={
        <>
          <NamesField name="pool" label={t("migrate.to")} names={others} isNeeded />
          <RateField label={t("copy.rate")} />
        </>
      }
      plan={(values) => plan(name, values)}
      done={() => (replaceQuery({ tab: "work" }), t("work.begun"))}
      onClose={onClose}
    />
  );
}
