import { Spin } from "antd";
import { useThing } from "../../api/queries";
import { Act } from "../../components/Act";
import { Name } from "../../components/Name";
import { Pairs } from "../../components/Pairs";
import { Problem } from "../../components/Problem";
import { useSpeech } from "../../i18n";
import type { BackupPolicy, BackupRun } from "../../lib/backups";
import { formatBytes, formatCount, formatDuration, formatTime } from "../../lib/format";
import { placeHref } from "../../lib/router";
import { keepText, NextRun, targetText, useVolumeNames } from "../schedules/parts";
import { BackupState } from "./parts";
import {
  DeleteBackupPolicy,
  PauseBackupPolicy,
  RunBackupPolicy,
  SetBackupPolicy,
  VerifyBackupPolicy,
} from "./policies";
import { VerificationCard } from "./VerificationCard";

function Actions({ policy, etag }: { policy: BackupPolicy; etag: string | undefined }) {
  const { t } = useSpeech();
  const given = { policy, etag };
  return (
    <>
      <Act
        may="backup-policy.run"
        type="primary"
        label={t("backup.run")}
        dialog={(close) => <RunBackupPolicy policy={policy} onClose={close} />}
      />
      {policy.verify == null ? null : (
        <Act
          may="backup-policy.run"
          label={t("verify.run")}
          dialog={(close) => <VerifyBackupPolicy policy={policy} onClose={close} />}
        />
      )}
      <Act
        may="backup-policy.set"
        label={t("action.change")}
        dialog={(close) => <SetBackupPolicy {...given} onClose={close} />}
      />
      <Act
        may="backup-policy.set"
        label={policy.paused ? t("policy.resume") : t("policy.pause")}
        dialog={(close) => <PauseBackupPolicy {...given} onClose={close} />}
      />
      <Act
        danger
        may="backup-policy.delete"
        label={t("policy.delete")}
        dialog={(close) => <DeleteBackupPolicy {...given} onClose={close} />}
      />
    </>
  );
}

function Facts({ policy }: { policy: BackupPolicy }) {
  const { t } = useSpeech();
  const names = useVolumeNames();
  const { fault, repository, runner } = policy;
  return (
    <section className="card">
      <Pairs
        pairs={[
          [t("node.state"), <BackupState policy={policy} />],
          ...(fault == null ? [] : [[t("policy.fault"), <Name text={fault} whole />] as const]),
          [t("policy.target"), <Name text={targetText(policy, names, t)} whole />],
          [
            t("backup.repository"),
            <a href={placeHref(["backups"], { tab: "repositories", q: repository })}>
              <Name text={repository} />
            </a>,
          ],
          [t("policy.schedule"), <Name text={policy.schedule} />],
          [t("policy.zone"), <Name text={policy.zone} />],
          [t("policy.next"), <NextRun policy={policy} />],
          [t("policy.keep"), keepText(policy, t)],
          [t("policy.together"), policy.together ? t("yes") : t("no")],
          [t("backup.limit"), formatDuration(policy.limit_seconds)],
          [t("backup.runner"), runner == null ? t("none") : <Name text={runner} />],
        ]}
      />
    </section>
  );
}

/** A run: when, where, what it has made, and why something of it failed. */
function Run({ title, run }: { title: string; run: BackupRun }) {
  const { t, locale } = useSpeech();
  const count = (value: number) => formatCount(value, locale);
  const time = (seconds: number) => formatTime(seconds * 1000, locale);
  const { ended_at, again_at, why, notes } = run;
  return (
    <section className="card">
      <h2>{title}</h2>
      <Pairs
        pairs={[
          [t("backup.run.due"), time(run.due_at)],
          [t("policy.last.began"), time(run.began_at)],
          ...(ended_at == null ? [] : [[t("policy.last.ended"), time(ended_at)] as const]),
          ...(again_at == null ? [] : [[t("backup.run.again"), time(again_at)] as const]),
          [t("backup.run.node"), <Name text={run.node} />],
          [t("backup.run.attempts"), count(run.attempts)],
          [t("backup.run.points"), t("backup.run.points.of", { points: run.points, volumes: run.volumes })],
          [t("backup.forgotten"), count(run.forgotten)],
          [t("backup.read"), formatBytes(run.read_bytes)],
          [t("backup.sent"), formatBytes(run.sent_bytes)],
          [t("backup.run.failed"), count(run.failed)],
          [t("policy.last.why"), why.length === 0 ? t("none") : <Name text={why.join(" ")} whole />],
          ...(notes.length === 0 ? [] : [[t("backup.run.notes"), <Name text={notes.join(" ")} whole />] as const]),
        ]}
      />
    </section>
  );
}

function History({ policy: { history } }: { policy: BackupPolicy }) {
  const { t, locale } = useSpeech();
  const count = (value: number) => formatCount(value, locale);
  if (history == null) {
    return (
      <section className="card">
        <p>{t("backup.unseen.about")}</p>
      </section>
    );
  }
  const { current, last, succeeded_at } = history;
  return (
    <>
      {current == null ? null : <Run title={t("backup.run.current")} run={current} />}
      {last == null ? null : <Run title={t("backup.run.last")} run={last} />}
      <section className="card">
        <h2>{t("policy.history")}</h2>
        <Pairs
          pairs={[
            [t("backup.succeeded"), succeeded_at == null ? t("backup.never") : formatTime(succeeded_at * 1000, locale)],
            [t("policy.runs"), count(history.runs)],
            [t("policy.failures"), count(history.failures)],
            [t("policy.missed"), count(history.missed)],
            [t("backup.points"), count(history.points)],
            [t("backup.forgotten"), count(history.forgotten)],
            [t("backup.read"), formatBytes(history.read_bytes)],
            [t("backup.sent"), formatBytes(history.sent_bytes)],
          ]}
        />
      </section>
    </>
  );
}

export function PolicyPage({ name }: { name: string }) {
  const { t } = useSpeech();
  const { data, error } = useThing("/api/v1/backup-policies/{name}", { name });
  return (
    <>
      <div className="screen-head">
        <h1 className="name-whole">
          <a href={placeHref(["backups"])}>{t("backup.policies")}</a> / <Name text={name} whole />
        </h1>
        <span className="space" />
        {data === undefined ? null : <Actions policy={data.data} etag={data.etag} />}
      </div>
      {error === null ? null : <Problem error={error} />}
      {data === undefined && error === null ? <Spin aria-label={t("frame.loading")} /> : null}
      {data === undefined ? null : (
        <>
          <Facts policy={data.data} />
          <VerificationCard policy={data.data} />
          <History policy={data.data} />
        </>
      )}
    </>
  );
}
