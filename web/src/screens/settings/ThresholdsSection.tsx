import { Spin } from "antd";
import { call } from "../../api/call";
import { useThing } from "../../api/queries";
import type { components } from "../../api/schema";
import { ifMatch, useSeen } from "../../api/seen";
import { Act } from "../../components/Act";
import { ActionDialog } from "../../components/ActionDialog";
import { NumberField, TextField } from "../../components/inputs";
import { Problem } from "../../components/Problem";
import { useSpeech } from "../../i18n";
import { amitaCommand } from "../../lib/command";
import { readPercents } from "../../lib/recovery";
import { SettingTable } from "./parts";

type Thresholds = components["schemas"]["Thresholds"];

interface Props {
  readonly thresholds: Thresholds;
  readonly etag: string | undefined;
  readonly onClose: () => void;
}

interface Wanted {
  near: number;
  full: number;
  pools: string;
}

function SetThresholds({ thresholds, etag, onClose }: Props) {
  const { t } = useSpeech();
  const seen = useSeen("/api/v1/settings/thresholds", {}, { shown: { data: thresholds, etag } });
  const { near_full_percent, full_percent, pool_percents } = thresholds;
  const plan = ({ near, full, pools }: Wanted) => {
    const percents = readPercents(pools) ?? pool_percents;
    const isSame = percents.every((one, index) => one === pool_percents[index]);
    const body: components["schemas"]["ThresholdsChange"] = {
      ...(near === near_full_percent ? {} : { near_full_percent: near }),
      ...(full === full_percent ? {} : { full_percent: full }),
      ...(isSame ? {} : { pool_percents: percents }),
    };
    const words = [
      ...(near === near_full_percent ? [] : ["--near-full", String(near)]),
      ...(full === full_percent ? [] : ["--full", String(full)]),
      ...(isSame ? [] : ["--pools", percents.join(",")]),
    ];
    return {
      call: call("patch", "/api/v1/settings/thresholds", { params: { header: ifMatch(seen) }, body }),
      command: amitaCommand("pool", "thresholds", ...words),
    };
  };
  return (
    <ActionDialog
      title={t("threshold.set")}
      verb={t("action.change")}
      about={t("threshold.set.about")}
      initial={{ near: near_full_percent, full: full_percent, pools: pool_percents.join(", ") }}
      fields={
        <>
          <NumberField name="near" label={t("threshold.near")} about={t("threshold.near.help")} min={3} max={99} />
          <NumberField name="full" label={t("threshold.full")} about={t("threshold.full.help")} min={4} max={100} />
          <TextField
            name="pools"
            label={t("threshold.pools")}
            about={t("threshold.pools.help")}
            fits={(text) => readPercents(text) !== undefined}
            why={t("threshold.pools.wrong")}
          />
        </>
      }
      seen={seen}
      plan={plan}
      onClose={onClose}
    />
  );
}

/** From where on stores and pools count as full. */
export function ThresholdsSection() {
  const { t } = useSpeech();
  const { data, error } = useThing("/api/v1/settings/thresholds");
  return (
    <section className="card">
      <div className="screen-head">
        <h2>{t("threshold.title")}</h2>
        <span className="space" />
        {data === undefined ? null : (
          <Act
            may="pool.thresholds"
            label={t("action.change")}
            dialog={(close) => <SetThresholds thresholds={data.data} etag={data.etag} onClose={close} />}
          />
        )}
      </div>
      {error === null ? null : <Problem error={error} />}
      {data === undefined && error === null ? <Spin aria-label={t("frame.loading")} /> : null}
      {data === undefined ? null : (
        <SettingTable
          label={t("threshold.title")}
          settings={[
            { name: t("threshold.near"), value: `${data.data.near_full_percent} %`, help: t("threshold.near.help") },
            { name: t("threshold.full"), value: `${data.data.full_percent} %`, help: t("threshold.full.help") },
            {
              name: t("threshold.pools"),
              value: data.data.pool_percents.map((one) => `${one} %`).join(", "),
              help: t("threshold.pools.help"),
            },
          ]}
        />
      )}
    </section>
  );
}
