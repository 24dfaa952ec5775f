// What the hosts of a volume may do, and how that is changed.
import { Spin } from "antd";
import { call } from "../../api/call";
import { useThing } from "../../api/queries";
import { Act } from "../../components/Act";
import { ActionDialog } from "../../components/ActionDialog";
import { TextField } from "../../components/inputs";
import { Pairs } from "../../components/Pairs";
import { Problem } from "../../components/Problem";
import { useSpeech } from "../../i18n";
import type { Word } from "../../i18n";
import { formatBytes, formatCount } from "../../lib/format";
import { LIMITS, limitCommands, limitsBody, limitValues, readRate } from "../../lib/limits";
import type { Limit, LimitOption, Limits } from "../../lib/limits";
import type { Volume } from "./VolumeList";

const WORDS: Readonly<Record<LimitOption, Word>> = {
  "--iops": "limit.iops",
  "--read-iops": "limit.iops.read",
  "--write-iops": "limit.iops.write",
  "--bandwidth": "limit.bandwidth",
  "--read-bandwidth": "limit.bandwidth.read",
  "--write-bandwidth": "limit.bandwidth.write",
};

function LimitDialog({ volume: { name }, found, onClose }: { volume: Volume; found: Limits; onClose: () => void }) {
  const { t } = useSpeech();
  const fields = LIMITS.map(([measure, , option]) => (
    <TextField
      key={option}
      name={option}
      label={t(WORDS[option])}
      fits={(text) => readRate(option, text) !== undefined}
      why={measure === "iops" ? t("limit.iops.wrong") : t("limit.bandwidth.wrong")}
    />
  ));
  return (
    <ActionDialog
      title={t("limit.title", { name })}
      verb={t("limit.change")}
      about={t("limit.about")}
      initial={limitValues(found)}
      fields={fields}
      plan={(values) => ({
        call: call("put", "/api/v1/volumes/{name}/limits", {
          params: { path: { name } },
          body: limitsBody(found, values),
        }),
        command: limitCommands(name, found, values),
      })}
      onClose={onClose}
    />
  );
}

/** `500/s, burst 60, 2000/s for 30 s`. */
function LimitText({ limit, write }: { limit: Limit; write: (count: number) => string }) {
  const { t } = useSpeech();
  const { rate, burst, peak } = limit;
  const parts = [
    t("limit.rate", { rate: write(rate) }),
    burst == null ? "" : t("limit.burst", { burst: write(burst) }),
    peak == null ? "" : t("limit.peak", { rate: write(peak.rate), seconds: peak.seconds }),
  ];
  return <>{parts.filter((part) => part !== "").join(", ")}</>;
}

function LimitFacts({ found }: { found: Limits }) {
  const { t, locale } = useSpeech();
  const set = LIMITS.flatMap(([measure, kind, option]) => {
    const limit = found[measure]?.[kind];
    const write = (count: number) => (measure === "iops" ? formatCount(count, locale) : formatBytes(count));
    return limit == null ? [] : [[t(WORDS[option]), <LimitText limit={limit} write={write} />] as const];
  });
  return set.length === 0 ? <p>{t("limit.none")}</p> : <Pairs pairs={set} />;
}

export function VolumeLimits({ volume }: { volume: Volume }) {
  const { t } = useSpeech();
  const { data, error } = useThing("/api/v1/volumes/{name}/limits", { name: volume.name });
  return (
    <section className="card">
      <div className="screen-head">
        <h2>{t("limit.limits")}</h2>
        <span className="space" />
        {data === undefined ? null : (
          <Act
            may="volume.limit"
            label={t("limit.change")}
            dialog={(close) => <LimitDialog volume={volume} found={data.data} onClose={close} />}
          />
        )}
      </div>
      {error === null ? null : <Problem error={error} />}
      {data === undefined && error === null ? <Spin aria-label={t("frame.loading")} /> : null}
      {data === undefined ? null : <LimitFacts found={data.data} />}
    </section>
  );
}
