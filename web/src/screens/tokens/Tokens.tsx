// Who may use the API without a certificate; and who looks, and what they may.
import type { TableColumnsType } from "antd";
import { useMemo } from "react";
import { useList, useThing } from "../../api/queries";
import type { components } from "../../api/schema";
import { Act } from "../../components/Act";
import { ListScreen } from "../../components/ListScreen";
import { Mark } from "../../components/Mark";
import { Name } from "../../components/Name";
import { Pairs } from "../../components/Pairs";
import { matches, useSearch } from "../../components/Search";
import { useSpeech } from "../../i18n";
import type { Translate } from "../../i18n";
import { formatDuration, formatTime } from "../../lib/format";
import { CreateToken, RevokeToken } from "./actions";

export type Token = components["schemas"]["Token"];

function Ends({ token }: { token: Token }) {
  const { t, locale } = useSpeech();
  const time = formatTime(token.ends_at * 1000, locale);
  const left = token.ends_at - Date.now() / 1000;
  if (token.ended || left <= 0) return <Mark tone="odd">{t("token.ended", { time })}</Mark>;
  return `${time} (${formatDuration(left)})`;
}

function columns(t: Translate, locale: string): TableColumnsType<Token> {
  return [
    {
      title: t("token.name"),
      width: 240,
      sorter: (a, b) => a.name.localeCompare(b.name),
      render: (_, { name }) => <Name text={name} />,
    },
    {
      title: t("token.role"),
      width: 110,
      sorter: (a, b) => a.role.localeCompare(b.role),
      render: (_, { role }) => <Mark>{role}</Mark>,
    },
    {
      title: t("token.ends"),
      width: 280,
      sorter: (a, b) => a.ends_at - b.ends_at,
      render: (_, token) => <Ends token={token} />,
    },
    {
      title: t("token.made"),
      width: 190,
      sorter: (a, b) => a.made_at - b.made_at,
      render: (_, { made_at }) => formatTime(made_at * 1000, locale),
    },
    { title: t("token.made_by"), width: 260, render: (_, { made_by }) => <Name text={made_by} /> },
    { title: t("token.id"), width: 280, render: (_, { id }) => <Name text={id} /> },
    {
      title: t("list.actions"),
      width: 120,
      render: (_, token) => (
        <Act
          size="small"
          danger
          may="token.revoke"
          label={t("token.revoke")}
          dialog={(close) => <RevokeToken token={token} onClose={close} />}
        />
      ),
    },
  ];
}

/** Who looks, by what, and what their role lets them do. */
function Myself() {
  const { t } = useSpeech();
  const { data } = useThing("/api/v1/self");
  if (data === undefined) return null;
  const { name, role, proof, may } = data.data;
  const proofs = { certificate: t("self.certificate"), token: t("self.token"), none: t("self.nothing") };
  return (
    <section className="card myself">
      <h2>{t("self.title")}</h2>
      <Pairs
        pairs={[
          [t("self.name"), <Name text={name} whole />],
          [t("token.role"), <Mark>{role}</Mark>],
          [t("self.proof"), proofs[proof as keyof typeof proofs] ?? proof],
          [
            t("self.may"),
            <details>
              <summary>{t("self.may.count", { count: may.length })}</summary>
              {may.join(", ")}
            </details>,
          ],
        ]}
      />
    </section>
  );
}

export default function Tokens() {
  const { t, locale } = useSpeech();
  const search = useSearch();
  const list = useList("/api/v1/tokens");
  const found = useMemo(
    () => list.items.filter(({ id, name, role, made_by }) => matches(search, id, name, role, made_by)),
    [list.items, search],
  );
  const shown = useMemo(() => columns(t, locale), [t, locale]);
  return (
    <>
      <Myself />
      <ListScreen
        title={t("screen.tokens")}
        search={t("token.search")}
        about={t("token.about")}
        list={list}
        found={found}
        columns={shown}
        rowKey="id"
        actions={
          <Act
            may="token.create"
            type="primary"
            label={t("token.create")}
            dialog={(close) => <CreateToken onClose={close} />}
          />
        }
      />
    </>
  );
}
