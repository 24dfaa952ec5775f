// What changes the settings of recovery, and of what is sick.
import { call } from "../../api/call";
import type { components } from "../../api/schema";
import { ifMatch, useSeen } from "../../api/seen";
import type { Seen } from "../../api/seen";
import { ActionDialog } from "../../components/ActionDialog";
import { CheckField, NumberField, OptionField, TextField } from "../../components/inputs";
import { useSpeech } from "../../i18n";
import { bytesArgument, parseBytes } from "../../lib/format";
import { changeLimits, changeManner, changeSickDisks, changeSickNetworks, changeSlowStores } from "../../lib/recovery";
import type { Manner, RecoveryLevel } from "../../lib/recovery";
import { DISK_WORDS, LEVEL_WORDS, SICK_WORDS, SLOW_WORDS } from "./words";

type Schemas = components["schemas"];

interface Props {
  readonly recovery: Schemas["Recovery"];
  readonly etag: string | undefined;
  readonly onClose: () => void;
}

const MOST_COUNT = 4_294_967_295;
const MOST_WINDOWS = 65_535;
const POLICIES: readonly Schemas["SlowPolicy"][] = ["off", "propose", "evict"];
const SICK_POLICIES: readonly Schemas["SickPolicy"][] = ["off", "propose", "avoid", "isolate"];
const DISK_POLICIES: readonly Schemas["SickDisks"][] = ["off", "propose", "drain"];

/** The settings that the page shows. */
function useSeenRecovery({ recovery, etag }: Omit<Props, "onClose">): Seen {
  return useSeen("/api/v1/settings/recovery", {}, { shown: { data: recovery, etag } });
}

function change(body: Schemas["RecoveryChange"], seen: Seen) {
  return call("patch", "/api/v1/settings/recovery", { params: { header: ifMatch(seen) }, body });
}

export function SetManner({ recovery, etag, onClose }: Props) {
  const { t } = useSpeech();
  const seen = useSeenRecovery({ recovery, etag });
  const { automatic, p99_percent, iops_percent, least_bytes_per_second } = recovery;
  const from: Manner = { automatic, p99_percent, iops_percent, least_bytes_per_second };
  return (
    <ActionDialog
      title={t("recovery.title")}
      verb={t("action.change")}
      about={t("recovery.set.about")}
      initial={{ automatic, p99_percent, iops_percent, least: bytesArgument(least_bytes_per_second) }}
      fields={
        <>
          <CheckField name="automatic" label={t("recovery.automatic")} about={t("recovery.automatic.help")} />
          <NumberField
            name="p99_percent"
            label={`${t("recovery.p99")} (%)`}
            about={t("recovery.p99.help")}
            min={110}
            max={100_000}
          />
          <NumberField
            name="iops_percent"
            label={`${t("recovery.iops")} (%)`}
            about={t("recovery.iops.help")}
            min={1}
            max={95}
          />
          <TextField
            name="least"
            label={t("recovery.least")}
            about={t("recovery.least.help")}
            fits={(text) => parseBytes(text) !== undefined}
            why={t("recovery.bytes.wrong")}
          />
        </>
      }
      seen={seen}
      plan={({ least, ...to }) => {
        const bytes = parseBytes(least) ?? from.least_bytes_per_second;
        const { body, command } = changeManner(from, { ...to, least_bytes_per_second: bytes });
        return { call: change(body, seen), command };
      }}
      onClose={onClose}
    />
  );
}

export function SetLimits({ level, recovery, etag, onClose }: Props & { level: RecoveryLevel }) {
  const { t } = useSpeech();
  const seen = useSeenRecovery({ recovery, etag });
  const from = recovery[level];
  const plan = ({ bytes, iops, windows }: { bytes: string; iops: number; windows: number }) => {
    const to = { bytes_per_second: parseBytes(bytes) ?? from.bytes_per_second, iops, windows };
    const { body, command } = changeLimits(level, from, to);
    return { call: change(body, seen), command };
  };
  return (
    <ActionDialog
      title={t("recovery.limits.title", { level: t(LEVEL_WORDS[level]) })}
      verb={t("action.change")}
      about={t("recovery.limits.about")}
      initial={{ bytes: bytesArgument(from.bytes_per_second), iops: from.iops, windows: from.windows }}
      fields={
        <>
          <TextField
            name="bytes"
            label={t("recovery.bytes")}
            about={t("recovery.bytes.help")}
            fits={(text) => parseBytes(text) !== undefined}
            why={t("recovery.bytes.wrong")}
          />
          <NumberField name="iops" label={t("recovery.requests")} about={t("recovery.zero")} min={0} max={MOST_COUNT} />
          <NumberField
            name="windows"
            label={t("recovery.windows")}
            about={t("recovery.zero")}
            min={0}
            max={MOST_WINDOWS}
          />
        </>
      }
      seen={seen}
      plan={plan}
      onClose={onClose}
    />
  );
}

export function SetSlowStores({ recovery, etag, onClose }: Props) {
  const { t } = useSpeech();
  const seen = useSeenRecovery({ recovery, etag });
  const from = recovery.slow_stores;
  return (
    <ActionDialog
      title={t("recovery.slow.title")}
      verb={t("action.change")}
      about={t("recovery.set.about")}
      initial={from}
      fields={
        <>
          <OptionField
            name="policy"
            label={t("recovery.slow")}
            about={t("recovery.slow.help")}
            options={POLICIES.map((policy) => [policy, t(SLOW_WORDS[policy])] as const)}
          />
          <NumberField
            name="after_seconds"
            label={`${t("recovery.slow.after")} (s)`}
            about={t("recovery.slow.after.help")}
            min={5}
            max={MOST_COUNT}
          />
          <NumberField
            name="rest_seconds"
            label={`${t("recovery.slow.rest")} (s)`}
            about={t("recovery.slow.rest.help")}
            min={10}
            max={MOST_COUNT}
          />
          <NumberField
            name="per_hour"
            label={t("recovery.slow.per_hour")}
            about={t("recovery.slow.per_hour.help")}
            min={0}
            max={MOST_COUNT}
          />
        </>
      }
      seen={seen}
      plan={(to) => {
        const { body, command } = changeSlowStores(from, to);
        return { call: change(body, seen), command };
      }}
      onClose={onClose}
    />
  );
}

export function SetSickNetworks({ recovery, etag, onClose }: Props) {
  const { t } = useSpeech();
  const seen = useSeenRecovery({ recovery, etag });
  const from = recovery.sick_networks;
  return (
    <ActionDialog
      title={t("recovery.sick.title")}
      verb={t("action.change")}
      about={t("recovery.sick.about")}
      initial={from}
      fields={
        <>
          <OptionField
            name="policy"
            label={t("recovery.sick")}
            about={t("recovery.sick.help")}
            options={SICK_POLICIES.map((policy) => [policy, t(SICK_WORDS[policy])] as const)}
          />
          <NumberField
            name="after_seconds"
            label={`${t("recovery.sick.after")} (s)`}
            about={t("recovery.sick.after.help")}
            min={10}
            max={MOST_COUNT}
          />
          <NumberField
            name="rest_seconds"
            label={`${t("recovery.sick.rest")} (s)`}
            about={t("recovery.sick.rest.help")}
            min={10}
            max={MOST_COUNT}
          />
          <NumberField
            name="per_hour"
            label={t("recovery.sick.per_hour")}
            about={t("recovery.sick.per_hour.help")}
            min={0}
            max={MOST_COUNT}
          />
        </>
      }
      seen={seen}
      plan={(to) => {
        const { body, command } = changeSickNetworks(from, to);
        return { call: change(body, seen), command };
      }}
      onClose={onClose}
    />
  );
}

export function SetSickDisks({ recovery, etag, onClose }: Props) {
  const { t } = useSpeech();
  const seen = useSeenRecovery({ recovery, etag });
  const from = recovery.sick_disks;
  return (
    <ActionDialog
      title={t("recovery.disks.title")}
      verb={t("action.change")}
      about={t("recovery.disks.about")}
      initial={{ policy: from }}
      fields={
        <OptionField
          name="policy"
          label={t("recovery.disks")}
          about={t("recovery.disks.help")}
          options={DISK_POLICIES.map((policy) => [policy, t(DISK_WORDS[policy])] as const)}
        />
      }
      seen={seen}
      plan={({ policy }) => {
        const { body, command } = changeSickDisks(from, policy);
        return { call: change(body, seen), command };
      }}
      onClose={onClose}
    />
  );
}
