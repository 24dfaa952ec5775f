// What can be done about alerts, and about who is told of them.
import { Form, Input, Modal } from "antd";
import { useState } from "react";
import { call } from "../../api/call";
import { isUnreadable } from "../../api/problem";
import { ifMatch, useSeen } from "../../api/seen";
import { ActionDialog } from "../../components/ActionDialog";
import { Labels } from "../../components/Labels";
import { Mark } from "../../components/Mark";
import { Name } from "../../components/Name";
import { NumberField, TextField } from "../../components/inputs";
import { Pairs } from "../../components/Pairs";
import { useSpeech } from "../../i18n";
import { isEmpty, matchOf, matchText, silence } from "../../lib/alerts";
import type { SilenceValues } from "../../lib/alerts";
import { amitaCommand } from "../../lib/command";
import { formatTime } from "../../lib/format";
import { parseLabels, writeLabels } from "../../lib/labels";
import { AlertMarks } from "./AlertList";
import type { Alert } from "./AlertList";
import type { Channel } from "./ChannelList";
import type { Silence } from "./SilenceList";

const MOST_HOURS = 90 * 24;

export function ShowAlert({ alert, onClose }: { alert: Alert; onClose: () => void }) {
  const { t, locale } = useSpeech();
  const { acknowledged, came_back, resolved_at } = alert;
  const time = (seconds: number) => formatTime(seconds * 1000, locale);
  return (
    <Modal
      open
      title={t("alert.title", { code: alert.code, object: alert.object })}
      width={640}
      footer={null}
      onCancel={onClose}
    >
      <Pairs
        pairs={[
          [t("node.state"), <AlertMarks alert={alert} />],
          [t("event.text"), <Name text={alert.what} whole />],
          [t("alert.impact"), <Name text={alert.impact} whole />],
          [t("overview.advice"), <Name text={alert.advice} whole />],
          [
            t("alert.runbook"),
            alert.runbook == null ? t("none") : <Name text={`docs/operating/runbooks/${alert.runbook}.md`} whole />,
          ],
          [t("alert.since"), time(alert.since)],
          [t("alert.resolved_at"), resolved_at == null ? t("none") : time(resolved_at)],
          [t("alert.came_back"), came_back],
          [t("volume.labels"), <Labels labels={alert.labels} />],
          [
            t("alert.acknowledged"),
            acknowledged == null ? (
              t("no")
            ) : (
              <Name text={`${acknowledged.by}, ${time(acknowledged.at)} ${acknowledged.note}`} whole />
            ),
          ],
        ]}
      />
    </Modal>
  );
}

export function Acknowledge({ alert: { id, code, object }, onClose }: { alert: Alert; onClose: () => void }) {
  const { t } = useSpeech();
  return (
    <ActionDialog
      title={t("alert.ack.title", { code, object })}
      verb={t("alert.ack")}
      about={t("alert.ack.about")}
      initial={{ note: "" }}
      fields={<TextField name="note" label={t("alert.note")} autoFocus />}
      plan={({ note }) => ({
        call: call("post", "/api/v1/alerts/{id}/acknowledge", { params: { path: { id } }, body: { note } }),
        command: amitaCommand("alert", "ack", id, ...(note === "" ? [] : ["--note", note])),
      })}
      onClose={onClose}
    />
  );
}

function SilenceFields() {
  const { t } = useSpeech();
  const isNothing = Form.useWatch(({ codes = "", objects = "", labels = "" }: Partial<SilenceValues>) =>
    isEmpty(matchOf({ codes, objects, labels, hours: 1, why: "" })),
  ) as boolean | undefined;
  return (
    <>
      <TextField name="codes" label={t("silence.codes")} about={t("silence.codes.about")} />
      <TextField name="objects" label={t("silence.objects")} about={t("silence.objects.about")} />
      <Form.Item
        name="labels"
        label={t("volume.labels")}
        extra={t("silence.labels.about")}
        rules={[
          {
            validator: (_, text: string) =>
              parseLabels(text ?? "") === undefined
                ? Promise.reject(new Error(t("field.labels.wrong")))
                : Promise.resolve(),
          },
        ]}
      >
        <Input.TextArea rows={2} spellCheck={false} />
      </Form.Item>
      {isNothing ? <p className="faint">{t("silence.nothing")}</p> : null}
      <NumberField name="hours" label={t("silence.hours")} about={t("silence.hours.about")} min={1} max={MOST_HOURS} />
      <TextField name="why" label={t("silence.why")} isNeeded />
    </>
  );
}

/** `alert`: the one that is to be silent; else it is said which. */
export function AddSilence({ alert, onClose }: { alert?: Alert; onClose: () => void }) {
  const { t } = useSpeech();
  // Once: a call that is made again is the same call.
  const [now] = useState(() => Math.floor(Date.now() / 1000));
  const initial: SilenceValues = {
    codes: alert?.code ?? "",
    objects: alert?.object ?? "",
    labels: alert === undefined || alert.object !== "" ? "" : writeLabels(alert.labels),
    hours: 4,
    why: "",
  };
  return (
    <ActionDialog
      title={t("silence.add")}
      verb={t("silence.add")}
      about={t("silence.add.about")}
      initial={initial}
      fields={<SilenceFields />}
      plan={(values) => {
        const { body, command } = silence({ ...values, hours: values.hours ?? 0 }, now);
        return { call: call("post", "/api/v1/silences", { body }), command };
      }}
      onClose={onClose}
    />
  );
}

export function RemoveSilence({ silence: { id, matches }, onClose }: { silence: Silence; onClose: () => void }) {
  const { t } = useSpeech();
  return (
    <ActionDialog
      title={t("silence.end.title", { what: matchText(matches) })}
      verb={t("silence.end")}
      about={t("silence.end.about")}
      initial={{}}
      plan={() => ({
        call: call("delete", "/api/v1/silences/{id}", { params: { path: { id } } }),
        command: amitaCommand("alert", "silence", "remove", id),
      })}
      onClose={onClose}
    />
  );
}

export function TestChannel({ channel: { name }, onClose }: { channel: Channel; onClose: () => void }) {
  const { t, locale } = useSpeech();
  return (
    <ActionDialog
      title={t("channel.test.title", { name })}
      verb={t("channel.test")}
      about={t("channel.test.about")}
      initial={{}}
      plan={() => ({
        call: call("post", "/api/v1/channels/{name}/test", { params: { path: { name } } }),
        command: amitaCommand("notify", "test", name),
      })}
      shows={({ taken, said, took_ms, node }) => (
        <>
          <p>
            {taken ? <Mark tone="good">{t("channel.taken")}</Mark> : <Mark tone="bad">{t("channel.not_taken")}</Mark>}
            {t("channel.took", { node, count: took_ms.toLocaleString(locale) })}
          </p>
          <Name text={said} whole />
        </>
      )}
      onClose={onClose}
    />
  );
}

export function RemoveChannel({ channel: { name, target }, onClose }: { channel: Channel; onClose: () => void }) {
  const { t } = useSpeech();
  const seen = useSeen("/api/v1/channels/{name}", { name });
  // One whose record nobody can read goes as well: there is nothing of it to be named. Whatever else fails leaves the button off.
  const isDamaged = seen.etag === undefined && isUnreadable(seen.error);
  return (
    <ActionDialog
      title={t("channel.remove.title", { name })}
      verb={t("channel.remove")}
      about={t("channel.remove.about", { target })}
      initial={{}}
      typed={name}
      danger
      seen={isDamaged ? undefined : seen}
      plan={() => ({
        call: call("delete", "/api/v1/channels/{name}", {
          params: { path: { name }, header: isDamaged ? {} : ifMatch(seen) },
        }),
        command: amitaCommand("notify", "remove", name),
      })}
      onClose={onClose}
    />
  );
}
