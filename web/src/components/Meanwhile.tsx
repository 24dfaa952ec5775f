import { Alert, Button, Spin } from "antd";
import type { Seen } from "../api/seen";
import { useSpeech } from "../i18n";
import { Name } from "./Name";
import { Problem } from "./Problem";

function Changes({ seen }: { seen: Seen }) {
  const { t } = useSpeech();
  if (seen.changes === undefined) return <Spin aria-label={t("frame.loading")} />;
  if (seen.changes.length === 0) return <p>{t("meanwhile.nothing")}</p>;
  return (
    <table className="settings" aria-label={t("meanwhile.changes")}>
      <thead>
        <tr>
          <th scope="col">{t("meanwhile.field")}</th>
          <th scope="col">{t("meanwhile.was")}</th>
          <th scope="col">{t("meanwhile.is")}</th>
        </tr>
      </thead>
      <tbody>
        {seen.changes.map(({ field, from, to }) => (
          <tr key={field}>
            <th scope="row">
              <code>{field}</code>
            </th>
            <td>
              <Name text={from} whole />
            </td>
            <td>
              <Name text={to} whole />
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** Somebody was faster: nothing was done. What has become another, and the way on; what was typed stays. */
export function Meanwhile({ seen, onGoOn }: { seen: Seen; onGoOn: () => void }) {
  const { t } = useSpeech();
  if (seen.error !== null) {
    return (
      <>
        <Problem error={seen.error} />
        <Button size="small" onClick={() => void seen.look()}>
          {t("meanwhile.again")}
        </Button>
      </>
    );
  }
  return (
    <Alert
      type="warning"
      showIcon
      role="alert"
      className="problem"
      title={t("meanwhile.title")}
      description={
        <>
          <p>{t("meanwhile.about")}</p>
          <Changes seen={seen} />
          <p>
            <Button size="small" disabled={seen.changes === undefined} onClick={onGoOn}>
              {t("meanwhile.go_on")}
            </Button>
          </p>
        </>
      }
    />
  );
}
