import { Tabs } from "antd";
import { useSpeech } from "../../i18n";
import { replaceQuery, usePlace } from "../../lib/router";
import { PolicyList } from "./PolicyList";
import { PolicyPage } from "./PolicyPage";
import { RepositoryList } from "./RepositoryList";
import { TaskList } from "./TaskList";

/** `#/backups`, `#/backups?tab=tasks`, `#/backups?tab=repositories`, and `#/backups/POLICY`. */
export default function Backups() {
  const { t } = useSpeech();
  const { path, query } = usePlace();
  const name = path[1];
  if (name !== undefined) return <PolicyPage key={name} name={name} />;
  return (
    <Tabs
      activeKey={query.get("tab") ?? "policies"}
      destroyOnHidden
      onChange={(tab) => replaceQuery({ tab, q: undefined })}
      items={[
        { key: "policies", label: t("backup.policies"), children: <PolicyList /> },
        { key: "tasks", label: t("task.all"), children: <TaskList /> },
        { key: "repositories", label: t("repository.all"), children: <RepositoryList /> },
      ]}
    />
  );
}
