import type { TableColumnsType } from "antd";
import { useMemo } from "react";
import { call } from "../../api/call";
import { useList } from "../../api/queries";
import { Act } from "../../components/Act";
import { ActionDialog } from "../../components/ActionDialog";
import { ListScreen } from "../../components/ListScreen";
import { Mark } from "../../components/Mark";
import type { Tone } from "../../components/Mark";
import { Name } from "../../components/Name";
import { matches, useSearch } from "../../components/Search";
import { useSpeech } from "../../i18n";
import type { Translate, Word } from "../../i18n";
import { taskHasEnded, taskOf } from "../../lib/backups";
import type { BackupTask } from "../../lib/backups";
import { amitaCommand } from "../../lib/command";
import { formatTime, percent } from "../../lib/format";
import { markOf } from "../../lib/known";
import { placeHref } from "../../lib/router";

const STATES: Readonly<Record<BackupTask["state"], readonly [Tone, Word]>> = {
  waiting: ["odd", "task.waiting"],
  running: ["busy", "task.running"],
  cancelling: ["busy", "task.cancelling"],
  done: ["good", "task.done"],
  failed: ["bad", "task.failed"],
  cancelled: ["plain", "task.cancelled"],
  unreadable: ["bad", "task.unreadable"],
};

const WORK: Readonly<Record<ReturnType<typeof taskOf>["kind"], Word>> = {
  backup: "task.backup",
  restore: "task.restore",
  forget: "task.forget",
  unknown: "task.unknown",
};

function workText(task: BackupTask, t: Translate): string {
  const { kind, what } = taskOf(task);
  return t(WORK[kind], { what });
}

function TaskState({ task: { state, progress } }: { task: BackupTask }) {
  const { t } = useSpeech();
  const [tone, text] = markOf(STATES, state, t);
  const far =
    progress == null || progress.total_bytes === 0
      ? ""
      : ` ${t("task.far", { percent: percent(progress.done_bytes, progress.total_bytes) })}`;
  return <Mark tone={tone}>{text + far}</Mark>;
}

interface Props {
  readonly task: BackupTask;
  readonly onClose: () => void;
}

function CancelTask({ task: { name }, onClose }: Props) {
  const { t } = useSpeech();
  return (
    <ActionDialog
      title={t("task.cancel.title", { name })}
      verb={t("task.cancel")}
      about={t("task.cancel.about")}
      initial={{}}
      danger
      plan={() => ({
        call: call("post", "/api/v1/backup-tasks/{name}/cancel", { params: { path: { name } } }),
        command: amitaCommand("backup", "task", "cancel", name),
      })}
      onClose={onClose}
    />
  );
}

function RemoveTask({ task: { name }, onClose }: Props) {
  const { t } = useSpeech();
  return (
    <ActionDialog
      title={t("task.remove.title", { name })}
      verb={t("repository.remove")}
      about={t("task.remove.about")}
      initial={{}}
      plan={() => ({
        call: call("delete", "/api/v1/backup-tasks/{name}", { params: { path: { name } } }),
        command: amitaCommand("backup", "task", "remove", name),
      })}
      onClose={onClose}
    />
  );
}

function columns(t: Translate, locale: string): TableColumnsType<BackupTask> {
  return [
    {
      title: t("task.name"),
      width: 200,
      sorter: (a, b) => a.name.localeCompare(b.name),
      render: (_, { name }) => <Name text={name} />,
    },
    { title: t("node.state"), width: 180, render: (_, task) => <TaskState task={task} /> },
    { title: t("task.what"), width: 280, render: (_, task) => <Name text={workText(task, t)} /> },
    {
      title: t("backup.repository"),
      width: 160,
      render: (_, { repository }) => (
        <a href={placeHref(["backups"], { tab: "repositories", q: repository })}>
          <Name text={repository} />
        </a>
      ),
    },
    {
      title: t("task.asked"),
      width: 190,
      sorter: (a, b) => a.asked_at - b.asked_at,
      defaultSortOrder: "descend",
      render: (_, { asked_at: at }) => (at === 0 ? "" : formatTime(at * 1000, locale)),
    },
    { title: t("backup.run.node"), width: 120, render: (_, { node }) => <Name text={node ?? ""} /> },
    {
      title: t("task.point"),
      width: 90,
      align: "right",
      render: (_, { result }) => result?.point ?? "",
    },
    { title: t("task.why"), width: 320, render: (_, { why, notes }) => <Name text={[...why, ...notes].join(" ")} /> },
    {
      title: t("list.actions"),
      width: 120,
      render: (_, task) =>
        taskHasEnded(task) ? (
          <Act
            size="small"
            may="backup.remove-task"
            label={t("repository.remove")}
            dialog={(close) => <RemoveTask task={task} onClose={close} />}
          />
        ) : (
          <Act
            size="small"
            danger
            may="backup.cancel"
            label={t("task.cancel")}
            dialog={(close) => <CancelTask task={task} onClose={close} />}
          />
        ),
    },
  ];
}

/** What nodes were asked to do with a repository, once. */
export function TaskList() {
  const { t, locale } = useSpeech();
  const search = useSearch();
  const list = useList("/api/v1/backup-tasks");
  const found = useMemo(
    () => list.items.filter((task) => matches(search, task.name, task.repository, workText(task, t))),
    [list.items, search, t],
  );
  const shown = useMemo(() => columns(t, locale), [t, locale]);
  return (
    <ListScreen
      title={t("task.all")}
      search={t("task.search")}
      about={t("task.about")}
      list={list}
      found={found}
      columns={shown}
      rowKey="name"
      empty={t("task.first")}
    />
  );
}
