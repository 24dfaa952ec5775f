import { Spin } from "antd";
import { useThing } from "../../api/queries";
import { Act } from "../../components/Act";
import { Name } from "../../components/Name";
import { Pairs } from "../../components/Pairs";
import { Problem } from "../../components/Problem";
import { useSpeech } from "../../i18n";
import { formatCount, formatTime } from "../../lib/format";
import type { Policy } from "../../lib/policies";
import { placeHref } from "../../lib/router";
import { keepText, NextRun, PolicyState, targetText, useVolumeNames } from "./parts";
import { DeletePolicy, PausePolicy, PrunePolicy, SetPolicy } from "./policies";

function Actions({ policy, etag }: { policy: Policy; etag: string | undefined }) {
  const { t } = useSpeech();
  const given = { policy, etag };
  return (
    <>
      <Act
        may="snapshot-policy.set"
        label={t("action.change")}
        dialog={(close) => <SetPolicy {...given} onClose={close} />}
      />
      <Act
        may="snapshot-policy.set"
        label={policy.paused ? t("policy.resume") : t("policy.pause")}
        dialog={(close) => <PausePolicy {...given} onClose={close} />}
      />
      <Act
        may="snapshot-policy.prune"
        label={t("policy.prune.dry")}
        dialog={(close) => <PrunePolicy policy={policy} isDry onClose={close} />}
      />
      <Act
        danger
        may="snapshot-policy.prune"
        label={t("policy.prune")}
        dialog={(close) => <PrunePolicy policy={policy} isDry={false} onClose={close} />}
      />
      <Act
        danger
        may="snapshot-policy.delete"
        label={t("policy.delete")}
        dialog={(close) => <DeletePolicy {...given} onClose={close} />}
      />
    </>
  );
}

function Facts({ policy }: { policy: Policy }) {
  const { t } = useSpeech();
  const names = useVolumeNames();
  return (
    <section className="card">
      <Pairs
        pairs={[
          [t("node.state"), <PolicyState policy={policy} />],
          ...(policy.fault == null ? [] : [[t("policy.fault"), <Name text={policy.fault} whole />] as const]),
          [t("policy.target"), <Name text={targetText(policy, names, t)} whole />],
          [t("policy.schedule"), <Name text={policy.schedule} />],
          [t("policy.zone"), <Name text={policy.zone} />],
          [t("policy.next"), <NextRun policy={policy} />],
          [t("policy.keep"), keepText(policy, t)],
          [t("policy.template"), <Name text={policy.template} />],
          [t("policy.together"), policy.together ? t("yes") : t("no")],
        ]}
      />
    </section>
  );
}

function History({ policy }: { policy: Policy }) {
  const { t, locale } = useSpeech();
  const { history } = policy;
  const count = (value: number) => formatCount(value, locale);
  const time = (seconds: number | null | undefined) => (seconds == null ? "" : formatTime(seconds * 1000, locale));
  if (history == null) return null;
  const { last } = history;
  return (
    <section className="card">
      <h2>{t("policy.history")}</h2>
      <Pairs
        pairs={[
          [t("policy.runs"), count(history.runs)],
          [t("policy.taken"), count(history.taken)],
          [t("policy.deleted"), count(history.deleted)],
          [t("policy.failures"), count(history.failures)],
          [t("policy.missed"), count(history.missed)],
          ...(last == null
            ? []
            : ([
                [t("policy.last.due"), time(last.due_at)],
                [t("policy.last.began"), time(last.began_at)],
                [t("policy.last.ended"), time(last.ended_at)],
                [
                  t("policy.last.did"),
                  t("policy.last.counts", { taken: last.taken, deleted: last.deleted, failed: last.failed }),
                ],
                [t("policy.last.why"), last.why.length === 0 ? t("none") : <Name text={last.why.join(" ")} whole />],
              ] as const)),
        ]}
      />
    </section>
  );
}

export function PolicyPage({ name }: { name: string }) {
  const { t } = useSpeech();
  const { data, error } = useThing("/api/v1/snapshot-policies/{name}", { name });
  return (
    <>
      <div className="screen-head">
        <h1 className="name-whole">
          <a href={placeHref(["schedules"])}>{t("policy.all")}</a> / <Name text={name} whole />
        </h1>
        <span className="space" />
        {data === undefined ? null : <Actions policy={data.data} etag={data.etag} />}
      </div>
      {error === null ? null : <Problem error={error} />}
      {data === undefined && error === null ? <Spin aria-label={t("frame.loading")} /> : null}
      {data === undefined ? null : (
        <>
          <Facts policy={data.data} />
          <History policy={data.data} />
        </>
      )}
    </>
  );
}
