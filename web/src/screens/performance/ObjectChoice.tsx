import { useId } from "react";
import { useList } from "../../api/queries";
import { Choice } from "../../components/Choice";
import { useSpeech } from "../../i18n";
import type { Word } from "../../i18n";
import { KINDS } from "./charts";
import type { Kind } from "./charts";

const WORDS: Readonly<Record<Kind, Word>> = {
  cluster: "performance.cluster",
  node: "performance.node",
  store: "performance.store",
  core: "performance.core",
  volume: "performance.volume",
};

interface Props {
  readonly object: string;
  readonly onChange: (object: string) => void;
}

export function kindOf(object: string): Kind {
  const kind = object.split("/")[0] as Kind;
  return KINDS.includes(kind) ? kind : "cluster";
}

function Nodes({ object, onChange }: Props) {
  const { t } = useSpeech();
  const { items } = useList("/api/v1/nodes");
  const [kind, name = "", core = "0"] = object.split("/");
  const nodes = items.filter(({ client }) => !client);
  const cores = nodes.find((node) => node.name === name)?.cores ?? 1;
  const of = (name: string, core: string) => (kind === "core" ? `core/${name}/${core}` : `node/${name}`);
  return (
    <>
      <Choice
        label={t("performance.node")}
        value={name}
        options={[["", "–"] as const, ...nodes.map(({ name }) => [name, name] as const)]}
        onChange={(name) => onChange(of(name, "0"))}
      />
      {kind === "core" ? (
        <Choice
          label={t("performance.core")}
          value={core}
          options={Array.from({ length: cores }, (_, core) => [String(core), String(core)] as const)}
          onChange={(core) => onChange(of(name, core))}
        />
      ) : null}
    </>
  );
}

function Stores({ object, onChange }: Props) {
  const { t } = useSpeech();
  const { items } = useList("/api/v1/stores");
  const id = object.slice("store/".length);
  return (
    <Choice
      label={t("performance.store")}
      value={id}
      options={[
        ["", "–"] as const,
        ...items.map(({ id, node, path }) => [id, `${node} ${path} (${id.slice(0, 8)})`] as const),
      ]}
      onChange={(id) => onChange(`store/${id}`)}
    />
  );
}

function Volumes({ object, onChange }: Props) {
  const { t } = useSpeech();
  const { items } = useList("/api/v1/volumes");
  const list = useId();
  const name = object.slice("volume/".length);
  return (
    <>
      <input
        key={name}
        className="field"
        aria-label={t("performance.volume")}
        list={list}
        defaultValue={name}
        onChange={({ target }) => {
          if (items.some(({ name }) => name === target.value)) onChange(`volume/${target.value}`);
        }}
        onKeyDown={({ key, currentTarget }) => {
          // A volume that is gone has a history, too.
          if (key === "Enter" && currentTarget.value !== "") onChange(`volume/${currentTarget.value}`);
        }}
      />
      <datalist id={list}>
        {items.map(({ name }) => (
          <option key={name} value={name} />
        ))}
      </datalist>
    </>
  );
}

/** Of what the figures are. */
export function ObjectChoice(props: Props) {
  const { t } = useSpeech();
  const kind = kindOf(props.object);
  return (
    <>
      <Choice
        label={t("performance.of")}
        value={kind}
        options={KINDS.map((kind) => [kind, t(WORDS[kind])] as const)}
        onChange={(kind) => props.onChange(kind === "cluster" ? "cluster" : `${kind}/`)}
      />
      {kind === "node" || kind === "core" ? <Nodes {...props} /> : null}
      {kind === "store" ? <Stores {...props} /> : null}
      {kind === "volume" ? <Volumes {...props} /> : null}
    </>
  );
}
