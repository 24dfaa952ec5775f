// A volume of its own that is what this one is, or one of its snapshots, in any pool.
import { call } from "../../api/call";
import { useList } from "../../api/queries";
import { ActionDialog } from "../../components/ActionDialog";
import { NameField, RateField } from "../../components/fields";
import { CheckField, NamesField } from "../../components/inputs";
import { useSpeech } from "../../i18n";
import { amitaCommand } from "../../lib/command";
import { bytesArgument, parseRate } from "../../lib/format";
import type { Volume } from "./VolumeList";

interface Values {
  name: string;
  pool?: string;
  snapshots: boolean;
  encrypted: boolean;
  rate: string;
}

function sourceText({ name }: Volume, snapshot: string | undefined): string {
  return snapshot === undefined ? name : `${name}@${snapshot}`;
}

function plan(source: Volume, snapshot: string | undefined, { name, pool = "", snapshots, encrypted, rate }: Values) {
  const limit = parseRate(rate) ?? undefined;
  const body = {
    ...{ name, pool, snapshots, encrypted },
    ...(snapshot === undefined ? {} : { snapshot }),
    ...(limit === undefined ? {} : { limit_bytes_per_second: limit }),
  };
  const options = [
    snapshots ? "--snapshots" : undefined,
    encrypted && !source.encrypted ? "--encrypted" : undefined,
    ...(limit === undefined ? [] : ["--limit-rate", bytesArgument(limit)]),
  ];
  return {
    call: call("post", "/api/v1/volumes/{name}/copies", { params: { path: { name: source.name } }, body }),
    command: amitaCommand(
      "volume",
      "copy",
      sourceText(source, snapshot),
      name,
      "--pool",
      pool,
      ...options,
      "--no-wait",
    ),
  };
}

interface Props {
  readonly volume: Volume;
  /** As it was then; without one as it is soon. */
  readonly snapshot?: string;
  readonly onClose: () => void;
}

export function CopyVolume({ volume, snapshot, onClose }: Props) {
  const { t } = useSpeech();
  const pools = useList("/api/v1/pools");
  const initial: Values = { name: "", snapshots: false, encrypted: volume.encrypted, rate: "" };
  const fields = (
    <>
      <NameField label={t("copy.name")} />
      <NamesField name="pool" label={t("volume.pool")} names={pools.items.map(({ name }) => name)} isNeeded />
      <CheckField name="snapshots" label={t("copy.snapshots")} />
      {volume.encrypted ? null : <CheckField name="encrypted" label={t("volume.encrypt")} />}
      <RateField label={t("copy.rate")} />
    </>
  );
  return (
    <ActionDialog
      title={t("copy.title", { name: sourceText(volume, snapshot) })}
      verb={t("copy.copy")}
      about={t("copy.about")}
      initial={initial}
      fields={fields}
      plan={(values) => plan(volume, snapshot, values)}
      done={() => t("copy.begun")}
      onClose={onClose}
    />
  );
}
