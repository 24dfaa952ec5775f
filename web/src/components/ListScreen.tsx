import type { TableColumnsType } from "antd";
import type { ReactNode } from "react";
import type { List } from "../api/queries";
import { useSpeech } from "../i18n";
import { formatCount } from "../lib/format";
import { BigTable } from "./BigTable";
import { Search } from "./Search";

interface Props<T> {
  readonly title: string;
  readonly search: string;
  /** What stands right of the search field: what makes a new one. */
  readonly actions?: ReactNode;
  readonly about?: ReactNode;
  readonly list: List<T>;
  /** Those of the list that are shown. */
  readonly found: readonly T[];
  readonly columns: TableColumnsType<T>;
  readonly rowKey: keyof T & string;
  /** What is said where there is nothing yet: what to do first. */
  readonly empty?: ReactNode;
}

/** A heading, how many there are, a search field, and a table of any length. */
export function ListScreen<T extends object>(props: Props<T>) {
  const { title, search, actions, about, list, found, columns, rowKey, empty } = props;
  const { t, locale } = useSpeech();
  const count = (items: readonly T[]) => formatCount(items.length, locale);
  const isEmpty = empty !== undefined && list.items.length === 0 && !list.isLoading && list.error === null;
  return (
    <>
      <div className="screen-head">
        <h1>{title}</h1>
        <span className="faint">{t("list.count", { shown: count(found), all: count(list.items) })}</span>
        <span className="space" />
        <Search label={search} />
        {actions}
      </div>
      {about === undefined ? null : <p className="faint">{about}</p>}
      <BigTable
        label={title}
        rows={found}
        columns={columns}
        rowKey={rowKey}
        isLoading={list.isLoading}
        error={list.error}
        {...(isEmpty ? { empty } : {})}
      />
    </>
  );
}
