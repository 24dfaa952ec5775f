// The dialog of every action: what is to be given, what follows, and how the same is done without this page.
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { App, Button, Form, Input, Modal } from "antd";
import { useRef, useState } from "react";
import type { ReactNode } from "react";
import { send } from "../api/call";
import type { Answer, Call } from "../api/call";
import { asProblem } from "../api/problem";
import { isOvertaken } from "../api/seen";
import type { Seen } from "../api/seen";
import { useToken } from "../api/token";
import { useSpeech } from "../i18n";
import { curlCommand } from "../lib/command";
import { visible } from "../lib/visible";
import { Copyable } from "./Copyable";
import { Meanwhile } from "./Meanwhile";
import { Problem } from "./Problem";

/** What an action comes to with what was given. */
export interface Plan<T> {
  readonly call: Call<T>;
  /** What is called before it, in this order: all is done, or what is done stays and the dialog says what failed. */
  readonly before?: readonly Call[];
  /** One of those is done, and this came of it. */
  readonly passed?: (call: Call, answer: unknown) => void;
  /** The command of `amita` that does the same; none where there is none. */
  readonly command?: string | undefined;
}

export interface ActionProps<V extends object, T> {
  readonly title: string;
  /** What the button says. */
  readonly verb: string;
  /** What follows, or what is lost. */
  readonly about?: ReactNode;
  readonly fields?: ReactNode;
  readonly initial: V;
  readonly plan: (values: V) => Plan<T>;
  /** Something is lost by it: the button is red. */
  readonly danger?: boolean;
  /** False: what the change is meant for is not known yet, and nothing can be done. */
  readonly ready?: boolean;
  /** What it is meant for, where the call names it by `If-Match`: nothing can be done before that is known. */
  readonly seen?: Seen | undefined;
  /** A name that has to be typed before anything is done, or whether one has to be by what was given. */
  readonly typed?: string | undefined | ((values: V) => string | undefined);
  readonly done?: (answer: T) => ReactNode;
  /** What the dialog shows when it is done, until it is closed; without it, or where it is undefined, it closes by itself. */
  readonly shows?: (answer: T, given: V) => ReactNode;
  readonly onClose: () => void;
}

/** The field in which a name has to be typed. */
export function Typed({ name }: { name: string }) {
  const { t } = useSpeech();
  return (
    <Form.Item
      name="typedName"
      label={t("action.type_name", { name })}
      rules={[
        {
          validator: (_, value) =>
            // What is not seen is written out in the label, and cannot be typed otherwise.
            value === name || value === visible(name)
              ? Promise.resolve()
              : Promise.reject(new Error(t("action.type_name.wrong"))),
        },
      ]}
    >
      <Input autoComplete="off" spellCheck={false} />
    </Form.Item>
  );
}

/** How the same is done without this page. `options`: what curl needs beside the call. */
export function Previews({ plan, options = [] }: { plan: Plan<unknown>; options?: readonly string[] }) {
  const { t } = useSpeech();
  const byToken = useToken() !== null;
  const calls = [...(plan.before ?? []), plan.call];
  const curls = calls.map((call) => curlCommand(call, window.location.origin, byToken, options)).join("\n\n");
  return (
    <section className="previews" aria-label={t("action.same_by")}>
      {plan.command === undefined ? null : <Copyable label={t("action.command")} text={plan.command} />}
      <Copyable label={t("action.call")} text={curls} />
    </section>
  );
}

/** A random UUID; `crypto.randomUUID` is there on secure pages only. */
function randomKey(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6]! & 0x0f) | 0x40;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const digits = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return digits.replace(/^(.{8})(.{4})(.{4})(.{4})/, "$1-$2-$3-$4-");
}

/**
 * Makes calls so that one whose answer was lost can be made again: the same call has the same key until it was refused,
 * and is carried out once.
 */
function useSendOnce(): <T>(call: Call<T>) => Promise<Answer<T>> {
  const keys = useRef(new Map<string, string>());
  return async (call) => {
    if (call.method !== "post") return send(call);
    const text = JSON.stringify(call);
    const key = keys.current.get(text) ?? randomKey();
    keys.current.set(text, key);
    try {
      return await send({ ...call, headers: { ...call.headers, "Idempotency-Key": key } });
    } catch (error) {
      if (asProblem(error).status !== 0) keys.current.delete(text);
      throw error;
    }
  };
}

function useWork<V extends object, T>(props: ActionProps<V, T>) {
  const { t } = useSpeech();
  const { message } = App.useApp();
  const queries = useQueryClient();
  const sendOnce = useSendOnce();
  return useMutation({
    mutationFn: async (given: V) => {
      const { before = [], passed, call } = props.plan(given);
      for (const earlier of before) {
        const { data } = await sendOnce(earlier);
        passed?.(earlier, data);
      }
      return sendOnce(call);
    },
    onSuccess: (answer, given) => {
      if (props.shows?.(answer.data, given) !== undefined) return;
      message.success(props.done?.(answer.data) ?? t("action.done"));
      props.onClose();
    },
    onError: (error) => (isOvertaken(error) ? void props.seen?.look() : undefined),
    // Also after a failure: it may be that the change was made.
    onSettled: () => queries.invalidateQueries(),
    // An answer may have a secret: nothing of it is kept when the dialog is closed.
    gcTime: 0,
  });
}

/** What came of it: it goes only when somebody says so, not by a stray click or key. */
function Shown({ title, content, onClose }: { title: string; content: ReactNode; onClose: () => void }) {
  const { t } = useSpeech();
  return (
    <Modal
      open
      title={title}
      width={640}
      style={{ top: 40 }}
      mask={{ closable: false }}
      keyboard={false}
      footer={<Button onClick={onClose}>{t("action.close")}</Button>}
      onCancel={onClose}
    >
      {content}
    </Modal>
  );
}

export function ActionDialog<V extends object, T>(props: ActionProps<V, T>) {
  const [form] = Form.useForm<V>();
  const [values, setValues] = useState<V>(props.initial);
  const work = useWork(props);
  const { seen } = props;
  const isLate = seen !== undefined && work.isError && isOvertaken(work.error);
  const isReady = props.ready !== false && !isLate && (seen === undefined || seen.etag !== undefined);
  const goOn = () => {
    seen?.accept();
    work.reset();
  };
  const typed = typeof props.typed === "function" ? props.typed(values) : props.typed;
  const content = work.isSuccess ? props.shows?.(work.data.data, work.variables) : undefined;
  if (content !== undefined) return <Shown title={props.title} onClose={props.onClose} content={content} />;
  return (
    <Modal
      open
      title={props.title}
      okText={props.verb}
      okButtonProps={{ danger: props.danger ?? false, loading: work.isPending, disabled: !isReady }}
      onOk={() => form.submit()}
      onCancel={props.onClose}
      width={640}
      style={{ top: 40 }}
      destroyOnHidden
    >
      {props.about === undefined ? null : <div className="about">{props.about}</div>}
      <Form<V>
        form={form}
        layout="vertical"
        initialValues={props.initial}
        requiredMark={false}
        onValuesChange={(_, all) => setValues({ ...props.initial, ...all })}
        onFinish={(given) => (isReady ? work.mutate({ ...props.initial, ...given }) : undefined)}
      >
        {props.fields}
        {typed === undefined ? null : <Typed name={typed} />}
      </Form>
      {seen === undefined || seen.error === null || isLate ? null : <Problem error={seen.error} />}
      {isLate ? <Meanwhile seen={seen} onGoOn={goOn} /> : null}
      {work.isError && !isLate ? <Problem error={work.error} /> : null}
      <Previews plan={props.plan(values)} />
    </Modal>
  );
}
