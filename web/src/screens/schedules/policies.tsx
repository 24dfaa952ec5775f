// What can be done with policies of snapshots.
import { Spin } from "antd";
import { call } from "../../api/call";
import type { Result } from "../../api/call";
import { ifMatch, useSeen } from "../../api/seen";
import type { Seen } from "../../api/seen";
import type { components } from "../../api/schema";
import { ActionDialog } from "../../components/ActionDialog";
import { Name } from "../../components/Name";
import { useSpeech } from "../../i18n";
import { amitaCommand } from "../../lib/command";
import { creation, NEW_POLICY, policyChange, valuesOf } from "../../lib/policies";
import type { Policy, PolicyValues } from "../../lib/policies";
import { goTo } from "../../lib/router";
import { useVolumeNames } from "./parts";
import { PolicyFields } from "./PolicyFields";

export function CreatePolicy({ onClose }: { onClose: () => void }) {
  const { t } = useSpeech();
  const plan = (values: PolicyValues) => {
    const { body, command } = creation({ ...values, keep: { ...NEW_POLICY.keep, ...values.keep } });
    return { call: call("post", "/api/v1/snapshot-policies", { body }), command };
  };
  return (
    <ActionDialog
      title={t("policy.create")}
      verb={t("action.create")}
      about={t("policy.create.about")}
      initial={NEW_POLICY}
      fields={<PolicyFields isNew />}
      plan={plan}
      done={({ name }) => (goTo(["schedules", name]), t("action.done"))}
      onClose={onClose}
    />
  );
}

export interface Props {
  readonly policy: Policy;
  readonly etag: string | undefined;
  readonly onClose: () => void;
}

/** The policy that the page shows. */
function useSeenPolicy({ policy, etag }: Omit<Props, "onClose">): Seen {
  return useSeen("/api/v1/snapshot-policies/{name}", { name: policy.name }, { shown: { data: policy, etag } });
}

function changing({ name }: Policy, seen: Seen, body: components["schemas"]["PolicyChange"]) {
  return call("patch", "/api/v1/snapshot-policies/{name}", {
    params: { path: { name }, header: ifMatch(seen) },
    body,
  });
}

/** The dialog is shown when the names of the volumes are known: it holds them. */
export function SetPolicy(given: Props) {
  const { t } = useSpeech();
  const names = useVolumeNames();
  const seen = useSeenPolicy(given);
  const { policy, onClose } = given;
  const ids = policy.target.volume_ids ?? [];
  if (ids.length > 0 && names.size === 0) return <Spin aria-label={t("frame.loading")} />;
  const from = valuesOf(policy, names);
  const plan = (to: PolicyValues) => {
    const { body, command } = policyChange(from, { ...to, name: from.name, keep: { ...from.keep, ...to.keep } });
    return { call: changing(policy, seen, body), command };
  };
  return (
    <ActionDialog
      title={t("policy.set.title", { name: policy.name })}
      verb={t("action.change")}
      about={t("policy.set.about")}
      initial={from}
      fields={<PolicyFields isNew={false} />}
      seen={seen}
      plan={plan}
      onClose={onClose}
    />
  );
}

export function PausePolicy(given: Props) {
  const { t } = useSpeech();
  const seen = useSeenPolicy(given);
  const { policy, onClose } = given;
  const { name } = policy;
  const paused = !policy.paused;
  return (
    <ActionDialog
      title={paused ? t("policy.pause.title", { name }) : t("policy.resume.title", { name })}
      verb={paused ? t("policy.pause") : t("policy.resume")}
      about={paused ? t("policy.pause.about") : t("policy.resume.about")}
      initial={{}}
      seen={seen}
      plan={() => ({
        call: changing(policy, seen, { paused }),
        command: amitaCommand("snapshot-policy", "set", name, paused ? "--pause" : "--resume"),
      })}
      onClose={onClose}
    />
  );
}

export function DeletePolicy(given: Props) {
  const { t } = useSpeech();
  const seen = useSeenPolicy(given);
  const { policy, onClose } = given;
  const { name } = policy;
  return (
    <ActionDialog
      title={t("policy.delete.title", { name })}
      verb={t("policy.delete")}
      about={t("policy.delete.about")}
      initial={{}}
      typed={name}
      danger
      seen={seen}
      plan={() => ({
        call: call("delete", "/api/v1/snapshot-policies/{name}", {
          params: { path: { name }, header: ifMatch(seen) },
        }),
        command: amitaCommand("snapshot-policy", "delete", name),
      })}
      done={() => (goTo(["schedules"]), t("action.done"))}
      onClose={onClose}
    />
  );
}

type Pruned = Result<"post", "/api/v1/snapshot-policies/{name}/prune">;

/** What goes, what stays and why; so many are shown. */
const MOST_SHOWN = 200;

function Verdicts({ pruned }: { pruned: Pruned }) {
  const { t } = useSpeech();
  const going = pruned.snapshots.filter(({ goes }) => goes).length;
  return (
    <>
      <p>
        {pruned.dry_run
          ? t("policy.prune.would", { count: going, all: pruned.snapshots.length })
          : t("policy.prune.did", { count: pruned.deleted })}
      </p>
      <ul className="facts verdicts" tabIndex={0} aria-label={t("volume.snapshots")}>
        {pruned.left.map((why) => (
          <li key={why}>
            <Name text={why} whole />
          </li>
        ))}
        {pruned.snapshots.slice(0, MOST_SHOWN).map(({ volume, snapshot, goes, kept_by, protected: isProtected }) => (
          <li key={`${volume}@${snapshot}`}>
            <Name text={`${volume}@${snapshot}`} />{" "}
            {goes
              ? t("policy.prune.goes")
              : isProtected
                ? t("volume.protected")
                : t("policy.prune.stays", { rules: kept_by.join(", ") })}
          </li>
        ))}
      </ul>
      {pruned.snapshots.length > MOST_SHOWN ? t("list.more", { count: pruned.snapshots.length - MOST_SHOWN }) : null}
    </>
  );
}

/** `isDry`: only says what would go. */
export function PrunePolicy({ policy: { name }, isDry, onClose }: Omit<Props, "etag"> & { isDry: boolean }) {
  const { t } = useSpeech();
  return (
    <ActionDialog
      title={t("policy.prune.title", { name })}
      verb={isDry ? t("policy.prune.dry") : t("policy.prune")}
      about={isDry ? t("policy.prune.dry.about") : t("policy.prune.about")}
      initial={{}}
      {...(isDry ? {} : { typed: name, danger: true })}
      plan={() => ({
        call: call("post", "/api/v1/snapshot-policies/{name}/prune", {
          params: { path: { name }, query: isDry ? { dry_run: true } : {} },
        }),
        command: amitaCommand("snapshot-policy", "prune", name, isDry ? "--dry-run" : undefined),
      })}
      shows={(pruned) => <Verdicts pruned={pruned} />}
      onClose={onClose}
    />
  );
}
