// A pool's rule, and its end.
import { call } from "../../api/call";
import type { Result } from "../../api/call";
import { ifMatch } from "../../api/seen";
import type { components } from "../../api/schema";
import { ActionDialog } from "../../components/ActionDialog";
import { CheckField, NumberField, OptionField, TextField } from "../../components/inputs";
import { useSpeech } from "../../i18n";
import { amitaCommand } from "../../lib/command";
import { poolChange } from "../../lib/pools";
import { goTo } from "../../lib/router";
import { useSeenPool } from "./actions";

type Details = Result<"get", "/api/v1/pools/{name}">;
const LEVELS: readonly components["schemas"]["Level"][] = ["disk", "node", "rack", "site"];

interface Props {
  readonly pool: Details;
  readonly etag: string | undefined;
  readonly onClose: () => void;
}

interface Values {
  copies: number;
  level: components["schemas"]["Level"];
  class: string;
  force: boolean;
}

export function SetRule({ pool, etag, onClose }: Props) {
  const { t } = useSpeech();
  const seen = useSeenPool({ pool, etag });
  const { name, copies, level } = pool;
  const from = { copies: copies ?? 3, level, class: pool.class ?? "" };
  const plan = ({ force, ...to }: Values) => {
    const { body, words } = poolChange(from, to);
    const header = ifMatch(seen);
    const query = force ? { force } : {};
    return {
      call: call("patch", "/api/v1/pools/{name}", { params: { path: { name }, header, query }, body }),
      command:
        words.length === 0 ? undefined : amitaCommand("pool", "set", name, ...words, force ? "--force" : undefined),
    };
  };
  return (
    <ActionDialog
      title={t("pool.rule.title", { name })}
      verb={t("pool.rule")}
      about={t("pool.rule.about")}
      initial={{ ...from, force: false } as Values}
      fields={
        <>
          <NumberField name="copies" label={t("pool.copies")} about={t("pool.rule.copies")} min={1} max={8} />
          <OptionField name="level" label={t("pool.level")} options={LEVELS.map((one) => [one, one] as const)} />
          <TextField name="class" label={t("store.class")} about={t("pool.class.about")} />
          <CheckField name="force" label={t("pool.rule.force")} />
        </>
      }
      seen={seen}
      plan={plan}
      done={({ outlook }) => outlook?.sentences.join(" ") ?? t("action.done")}
      onClose={onClose}
    />
  );
}

export function DeletePool({ pool, etag, onClose }: Props) {
  const { t } = useSpeech();
  const seen = useSeenPool({ pool, etag });
  const { name } = pool;
  return (
    <ActionDialog
      title={t("pool.delete.title", { name })}
      verb={t("pool.delete")}
      about={t("pool.delete.about")}
      initial={{}}
      typed={name}
      danger
      seen={seen}
      plan={() => ({
        call: call("delete", "/api/v1/pools/{name}", {
          params: { path: { name }, header: ifMatch(seen) },
        }),
        command: amitaCommand("pool", "delete", name),
      })}
      done={() => (goTo(["pools"]), t("action.done"))}
      onClose={onClose}
    />
  );
}
