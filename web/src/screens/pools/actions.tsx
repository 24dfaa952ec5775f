// What can be done with pools.
import { Form, Input, InputNumber } from "antd";
import { call } from "../../api/call";
import type { Call, Result } from "../../api/call";
import type { components } from "../../api/schema";
import { ifMatch, useSeen } from "../../api/seen";
import type { Seen } from "../../api/seen";
import { ActionDialog } from "../../components/ActionDialog";
import { NameField, readSize } from "../../components/fields";
import { useSpeech } from "../../i18n";
import { amitaCommand } from "../../lib/command";
import { bytesArgument } from "../../lib/format";
import { goTo } from "../../lib/router";

type Details = Result<"get", "/api/v1/pools/{name}">;
type Level = components["schemas"]["Pool"]["level"];
const LEVELS: readonly Level[] = ["disk", "node", "rack", "site"];
const DAY_SECONDS = 86_400;

interface NewPool {
  name: string;
  copies: number;
  minCopies: number;
  groups: number;
  level: Level;
  class: string;
}

function Count({ name, label, min, max }: { name: string; label: string; min: number; max: number }) {
  const { t } = useSpeech();
  return (
    <Form.Item name={name} label={label} rules={[{ required: true, message: t("field.needed") }]}>
      <InputNumber min={min} max={max} precision={0} />
    </Form.Item>
  );
}

function NewPoolFields() {
  const { t } = useSpeech();
  return (
    <>
      <NameField label={t("pool.name")} />
      <div className="field-row">
        <Count name="copies" label={t("pool.copies")} min={1} max={8} />
        <Count name="minCopies" label={t("pool.min_copies")} min={1} max={8} />
        <Count name="groups" label={t("pool.groups.count")} min={1} max={8_192} />
      </div>
      <div className="field-row">
        <Form.Item name="level" label={t("pool.level")}>
          <select className="field">
            {LEVELS.map((level) => (
              <option key={level}>{level}</option>
            ))}
          </select>
        </Form.Item>
        <Form.Item name="class" label={t("store.class")} extra={t("pool.class.about")}>
          <Input autoComplete="off" spellCheck={false} />
        </Form.Item>
      </div>
    </>
  );
}

export function CreatePool({ onClose }: { onClose: () => void }) {
  const { t } = useSpeech();
  const plan = (given: NewPool) => {
    const { name, copies, minCopies, groups, level } = given;
    const rule = ["--copies", String(copies), "--min-copies", String(minCopies), "--groups", String(groups)];
    const byClass = given.class === "" ? [] : ["--class", given.class];
    const body = { name, copies, min_copies: minCopies, groups, level, class: given.class === "" ? null : given.class };
    return {
      call: call("post", "/api/v1/pools", { body }),
      command: amitaCommand("pool", "create", name, ...rule, "--failure-domain", level, ...byClass),
    };
  };
  return (
    <ActionDialog
      title={t("pool.create")}
      verb={t("action.create")}
      about={t("pool.create.about")}
      initial={{ name: "", copies: 3, minCopies: 2, groups: 32, level: "node" as Level, class: "" }}
      fields={<NewPoolFields />}
      plan={plan}
      done={({ name }) => (goTo(["pools", name]), t("action.done"))}
      onClose={onClose}
    />
  );
}

interface Changing {
  readonly pool: Details;
  readonly etag: string | undefined;
  readonly onClose: () => void;
}

/** The pool that the page shows. */
export function useSeenPool({ pool, etag }: Omit<Changing, "onClose">): Seen {
  return useSeen("/api/v1/pools/{name}", { name: pool.name }, { shown: { data: pool, etag } });
}

function change(
  { name }: Details,
  seen: Seen,
  body: components["schemas"]["PoolChange"],
): Call<Result<"patch", "/api/v1/pools/{name}">> {
  return call("patch", "/api/v1/pools/{name}", { params: { path: { name }, header: ifMatch(seen) }, body });
}

export function KeepDeleted(given: Changing) {
  const { t } = useSpeech();
  const seen = useSeenPool(given);
  const { pool, onClose } = given;
  const plan = ({ days }: { days: number }) => {
    const seconds = Math.round((days ?? 0) * DAY_SECONDS);
    return {
      call: change(pool, seen, { recycle_seconds: seconds }),
      command: amitaCommand("pool", "recycle", pool.name, "--keep", `${seconds}s`),
    };
  };
  return (
    <ActionDialog
      title={t("pool.recycle.title", { name: pool.name })}
      verb={t("pool.recycle.set")}
      about={t("pool.recycle.about")}
      initial={{ days: pool.recycle_seconds / DAY_SECONDS }}
      fields={
        <Form.Item name="days" label={t("pool.recycle.days")} rules={[{ required: true, message: t("field.needed") }]}>
          <InputNumber min={0} max={3_650} step={1} />
        </Form.Item>
      }
      seen={seen}
      plan={plan}
      onClose={onClose}
    />
  );
}

interface Quota {
  provisioned: string;
  volumes: number | null;
  snapshots: number | null;
}

function QuotaFields() {
  const { t } = useSpeech();
  const fine = (text: string) =>
    text === "" || readSize(text) !== undefined ? Promise.resolve() : Promise.reject(new Error(t("field.size.wrong")));
  return (
    <>
      <Form.Item
        name="provisioned"
        label={t("pool.provisioned")}
        extra={t("field.size.about")}
        rules={[{ validator: (_, text: string) => fine(text) }]}
      >
        <Input autoComplete="off" spellCheck={false} />
      </Form.Item>
      <div className="field-row">
        <Form.Item name="volumes" label={t("screen.volumes")}>
          <InputNumber min={0} precision={0} />
        </Form.Item>
        <Form.Item name="snapshots" label={t("volume.snapshots")}>
          <InputNumber min={0} precision={0} />
        </Form.Item>
      </div>
    </>
  );
}

export function SetQuota(given: Changing) {
  const { t } = useSpeech();
  const seen = useSeenPool(given);
  const { pool, onClose } = given;
  const plan = ({ provisioned, volumes, snapshots }: Quota) => {
    const bytes = readSize(provisioned) ?? null;
    const limits: [string, string | null][] = [
      ["--provisioned", bytes === null ? null : bytesArgument(bytes)],
      ["--volumes", volumes === null ? null : String(volumes)],
      ["--snapshots", snapshots === null ? null : String(snapshots)],
    ];
    const words = limits.flatMap(([option, value]) => (value === null ? [] : [option, value]));
    const rest = limits.some(([, value]) => value === null) ? ["--none"] : [];
    return {
      call: change(pool, seen, { quota: { provisioned_bytes: bytes, volumes, snapshots } }),
      command: amitaCommand("pool", "quota", pool.name, ...words, ...rest),
    };
  };
  const { provisioned_bytes: bytes } = pool.quota;
  return (
    <ActionDialog
      title={t("pool.quota.title", { name: pool.name })}
      verb={t("pool.quota.set")}
      about={t("pool.quota.about")}
      initial={{
        provisioned: bytes == null ? "" : bytesArgument(bytes),
        volumes: pool.quota.volumes ?? null,
        snapshots: pool.quota.snapshots ?? null,
      }}
      fields={<QuotaFields />}
      seen={seen}
      plan={plan}
      onClose={onClose}
    />
  );
}
