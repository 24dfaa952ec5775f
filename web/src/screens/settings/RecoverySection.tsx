import { Spin } from "antd";
import { useThing } from "../../api/queries";
import type { components } from "../../api/schema";
import { Act } from "../../components/Act";
import { Problem } from "../../components/Problem";
import { useSpeech } from "../../i18n";
import type { Translate } from "../../i18n";
import { formatBytes, formatCount, formatDuration } from "../../lib/format";
import { wordOf } from "../../lib/known";
import { LEVELS } from "../../lib/recovery";
import { SettingTable } from "./parts";
import type { Setting } from "./parts";
import { DiskProposals, NetworkProposals } from "./Proposals";
import { SetLimits, SetManner, SetSickDisks, SetSickNetworks, SetSlowStores } from "./recovery";
import { DISK_WORDS, LEVEL_HELP, LEVEL_WORDS, SICK_WORDS, SLOW_WORDS } from "./words";

type Schemas = components["schemas"];
type Recovery = Schemas["Recovery"];

/** What one level may take on each node; 0 is no limit. */
function limitsText(limits: Schemas["Limits"], t: Translate, locale: string): string {
  const { bytes_per_second: bytes, iops, windows } = limits;
  return [
    bytes === 0 ? "" : t("recovery.limit.bytes", { size: formatBytes(bytes) }),
    iops === 0 ? "" : t("recovery.limit.iops", { count: formatCount(iops, locale) }),
    windows === 0 ? "" : t("recovery.limit.windows", { count: formatCount(windows, locale) }),
  ]
    .filter((part) => part !== "")
    .concat(bytes === 0 && iops === 0 && windows === 0 ? [t("recovery.limit.none")] : [])
    .join(", ");
}

function leastText(bytes: number, t: Translate): string {
  return bytes === 0 ? t("recovery.least.none") : t("recovery.limit.bytes", { size: formatBytes(bytes) });
}

function mannerSettings(found: Recovery, t: Translate): Setting[] {
  return [
    {
      name: t("recovery.automatic"),
      value: found.automatic ? t("yes") : t("no"),
      help: t("recovery.automatic.help"),
    },
    { name: t("recovery.p99"), value: `${found.p99_percent} %`, help: t("recovery.p99.help") },
    { name: t("recovery.iops"), value: `${found.iops_percent} %`, help: t("recovery.iops.help") },
    { name: t("recovery.least"), value: leastText(found.least_bytes_per_second, t), help: t("recovery.least.help") },
  ];
}

function slowSettings({ slow_stores: slow }: Recovery, t: Translate, locale: string): Setting[] {
  return [
    { name: t("recovery.slow"), value: wordOf(SLOW_WORDS, slow.policy, t), help: t("recovery.slow.help") },
    {
      name: t("recovery.slow.after"),
      value: formatDuration(slow.after_seconds),
      help: t("recovery.slow.after.help"),
    },
    { name: t("recovery.slow.rest"), value: formatDuration(slow.rest_seconds), help: t("recovery.slow.rest.help") },
    {
      name: t("recovery.slow.per_hour"),
      value: formatCount(slow.per_hour, locale),
      help: t("recovery.slow.per_hour.help"),
    },
  ];
}

function sickSettings({ sick_networks: sick }: Recovery, t: Translate, locale: string): Setting[] {
  return [
    { name: t("recovery.sick"), value: wordOf(SICK_WORDS, sick.policy, t), help: t("recovery.sick.help") },
    {
      name: t("recovery.sick.after"),
      value: formatDuration(sick.after_seconds),
      help: t("recovery.sick.after.help"),
    },
    { name: t("recovery.sick.rest"), value: formatDuration(sick.rest_seconds), help: t("recovery.sick.rest.help") },
    {
      name: t("recovery.sick.per_hour"),
      value: formatCount(sick.per_hour, locale),
      help: t("recovery.sick.per_hour.help"),
    },
  ];
}

function Manner({ found, etag }: { found: Recovery; etag: string | undefined }) {
  const { t } = useSpeech();
  return (
    <section className="card">
      <div className="screen-head">
        <h2>{t("recovery.title")}</h2>
        <span className="space" />
        <Act
          may="recovery.set"
          label={t("action.change")}
          dialog={(close) => <SetManner recovery={found} etag={etag} onClose={close} />}
        />
      </div>
      <SettingTable label={t("recovery.title")} settings={mannerSettings(found, t)} />
    </section>
  );
}

function Limits({ found, etag }: { found: Recovery; etag: string | undefined }) {
  const { t, locale } = useSpeech();
  return (
    <section className="card">
      <h2>{t("recovery.limits")}</h2>
      <SettingTable
        label={t("recovery.limits")}
        settings={LEVELS.map((level) => ({
          name: t(LEVEL_WORDS[level]),
          help: t(LEVEL_HELP[level]),
          value: (
            <span className="row-actions">
              {limitsText(found[level], t, locale)}
              <Act
                size="small"
                may="recovery.set"
                label={t("action.change")}
                dialog={(close) => <SetLimits level={level} recovery={found} etag={etag} onClose={close} />}
              />
            </span>
          ),
        }))}
      />
    </section>
  );
}

function Slow({ found, etag }: { found: Recovery; etag: string | undefined }) {
  const { t, locale } = useSpeech();
  return (
    <section className="card">
      <div className="screen-head">
        <h2>{t("recovery.slow.title")}</h2>
        <span className="space" />
        <Act
          may="recovery.set"
          label={t("action.change")}
          dialog={(close) => <SetSlowStores recovery={found} etag={etag} onClose={close} />}
        />
      </div>
      <SettingTable label={t("recovery.slow.title")} settings={slowSettings(found, t, locale)} />
    </section>
  );
}

function SickNetworks({ found, etag }: { found: Recovery; etag: string | undefined }) {
  const { t, locale } = useSpeech();
  return (
    <section className="card">
      <div className="screen-head">
        <h2>{t("recovery.sick.title")}</h2>
        <span className="space" />
        <Act
          may="recovery.set"
          label={t("action.change")}
          dialog={(close) => <SetSickNetworks recovery={found} etag={etag} onClose={close} />}
        />
      </div>
      <SettingTable label={t("recovery.sick.title")} settings={sickSettings(found, t, locale)} />
      <NetworkProposals />
    </section>
  );
}

function SickDisks({ found, etag }: { found: Recovery; etag: string | undefined }) {
  const { t } = useSpeech();
  return (
    <section className="card">
      <div className="screen-head">
        <h2>{t("recovery.disks.title")}</h2>
        <span className="space" />
        <Act
          may="recovery.set"
          label={t("action.change")}
          dialog={(close) => <SetSickDisks recovery={found} etag={etag} onClose={close} />}
        />
      </div>
      <SettingTable
        label={t("recovery.disks.title")}
        settings={[
          { name: t("recovery.disks"), value: wordOf(DISK_WORDS, found.sick_disks, t), help: t("recovery.disks.help") },
        ]}
      />
      <DiskProposals />
    </section>
  );
}

/** How hard recovery works, and what becomes of slow stores, sick networks and sick disks. */
export function RecoverySection() {
  const { t } = useSpeech();
  const { data, error } = useThing("/api/v1/settings/recovery");
  if (error !== null) return <Problem error={error} />;
  if (data === undefined) return <Spin aria-label={t("frame.loading")} />;
  const given = { found: data.data, etag: data.etag };
  return (
    <>
      <Manner {...given} />
      <Limits {...given} />
      <Slow {...given} />
      <SickNetworks {...given} />
      <SickDisks {...given} />
    </>
  );
}
