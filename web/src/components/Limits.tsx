// What hosts may do, and how that is changed: those of a volume, or of all volumes of a tenant or a pool together.
import { Spin } from "antd";
import { call } from "../api/call";
import { useThing } from "../api/queries";
import { useSpeech } from "../i18n";
import type { Word } from "../i18n";
import { formatBytes, formatCount } from "../lib/format";
import { clearCommand, LIMITS, limitCommands, limitsBody, limitsSet, limitValues, readRate } from "../lib/limits";
import type { Limit, LimitOption, Limits, LimitValues, Whose } from "../lib/limits";
import { Act } from "./Act";
import { ActionDialog } from "./ActionDialog";
import { TextField } from "./inputs";
import { Meter } from "./Meter";
import { Pairs } from "./Pairs";
import { Problem } from "./Problem";

const WORDS: Readonly<Record<LimitOption, Word>> = {
  "--iops": "limit.iops",
  "--read-iops": "limit.iops.read",
  "--write-iops": "limit.iops.write",
  "--bandwidth": "limit.bandwidth",
  "--read-bandwidth": "limit.bandwidth.read",
  "--write-bandwidth": "limit.bandwidth.write",
};

const KINDS = {
  volume: { path: "/api/v1/volumes/{name}/limits", title: "limit.title", about: "limit.about", none: "limit.none" },
  tenant: {
    path: "/api/v1/tenants/{name}/limits",
    title: "limit.title.tenant",
    about: "limit.about.joint",
    none: "limit.none.joint",
  },
  pool: {
    path: "/api/v1/pools/{name}/limits",
    title: "limit.title.pool",
    about: "limit.about.joint",
    none: "limit.none.joint",
  },
} as const;

interface Changing {
  readonly whose: Whose;
  readonly onClose: () => void;
}

function SetLimits({ whose, found, onClose }: Changing & { found: Limits }) {
  const { t } = useSpeech();
  const { kind, name } = whose;
  const { path, title, about } = KINDS[kind];
  const fields = LIMITS.map(([measure, , option]) => {
    const given = {
      fits: (text: string) => readRate(option, text) !== undefined,
      why: measure === "iops" ? t("limit.iops.wrong") : t("limit.bandwidth.wrong"),
    };
    return (
      <div key={option} className="field-row">
        <TextField name={["rates", option]} label={t(WORDS[option])} {...given} />
        <TextField name={["bursts", option]} label={t("limit.at_once")} {...given} />
      </div>
    );
  });
  return (
    <ActionDialog
      title={t(title, { name })}
      verb={t("limit.change")}
      about={t(about)}
      initial={limitValues(found)}
      fields={fields}
      plan={(values: LimitValues) => ({
        call: call("put", path, { params: { path: { name } }, body: limitsBody(found, values) }),
        command: limitCommands(whose, found, values),
      })}
      onClose={onClose}
    />
  );
}

function ClearLimits({ whose, onClose }: Changing) {
  const { t } = useSpeech();
  const { kind, name } = whose;
  const { path, title } = KINDS[kind];
  return (
    <ActionDialog
      title={t(title, { name })}
      verb={t("limit.clear")}
      about={kind === "volume" ? t("limit.clear.about") : t("limit.clear.about.joint")}
      initial={{}}
      danger
      plan={() => ({ call: call("delete", path, { params: { path: { name } } }), command: clearCommand(whose) })}
      onClose={onClose}
    />
  );
}

interface ShownLimit {
  readonly label: string;
  readonly limit: Limit;
  readonly write: (count: number) => string;
  readonly used: number | undefined;
}

/** `500/s, burst 60, 2000/s for 30 s`, and how much of it is used. */
function LimitText({ label, limit, write, used }: ShownLimit) {
  const { t } = useSpeech();
  const { rate, burst, peak } = limit;
  const parts = [
    t("limit.rate", { rate: write(rate) }),
    burst == null ? "" : t("limit.burst", { burst: write(burst) }),
    peak == null ? "" : t("limit.peak", { rate: write(peak.rate), seconds: peak.seconds }),
    used === undefined ? "" : t("limit.used", { rate: write(Math.round(used)) }),
  ];
  return (
    <>
      {parts.filter((part) => part !== "").join(", ")}
      {used === undefined ? null : <Meter label={label} part={Math.min(used, rate)} whole={rate} />}
    </>
  );
}

/** How much of a limit is used a second; undefined: nobody knows. */
export type Used = (option: LimitOption) => number | undefined;

function LimitFacts({ whose, found, used }: { whose: Whose; found: Limits; used: Used }) {
  const { t, locale } = useSpeech();
  const set = LIMITS.flatMap(([measure, kind, option]) => {
    const limit = found[measure]?.[kind];
    const write = (count: number) => (measure === "iops" ? formatCount(count, locale) : formatBytes(count));
    const label = t(WORDS[option]);
    const text = { label, write, used: used(option) };
    return limit == null ? [] : [[label, <LimitText limit={limit} {...text} />] as const];
  });
  return set.length === 0 ? <p>{t(KINDS[whose.kind].none)}</p> : <Pairs pairs={set} />;
}

interface Props {
  readonly whose: Whose;
  readonly title: string;
  readonly used?: Used;
}

export function LimitsCard({ whose, title, used = () => undefined }: Props) {
  const { t } = useSpeech();
  const { kind, name } = whose;
  const { data, error } = useThing(KINDS[kind].path, { name });
  const found = data?.data;
  return (
    <section className="card">
      <div className="screen-head">
        <h2 className="name-whole">{title}</h2>
        <span className="space" />
        {found === undefined ? null : (
          <Act
            may={`${kind}.limit`}
            label={t("limit.change")}
            dialog={(close) => <SetLimits whose={whose} found={found} onClose={close} />}
          />
        )}
        {found === undefined || limitsSet(found).length === 0 ? null : (
          <Act
            danger
            may={`${kind}.limit`}
            label={t("limit.clear")}
            dialog={(close) => <ClearLimits whose={whose} onClose={close} />}
          />
        )}
      </div>
      {error === null ? null : <Problem error={error} />}
      {data === undefined && error === null ? <Spin aria-label={t("frame.loading")} /> : null}
      {found === undefined ? null : <LimitFacts whose={whose} found={found} used={used} />}
    </section>
  );
}
