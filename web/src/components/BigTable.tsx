// A table of which only the rows that are seen are in the page: thousands do not stutter.
import { Table } from "antd";
import type { TableColumnsType } from "antd";
import { useLayoutEffect, useRef, useState } from "react";
import type { ReactNode } from "react";
import { Problem } from "./Problem";

/** What is left for what stands below the table, in pixels. */
const BELOW = 76;
const LEAST_HEIGHT = 240;

function useHeightLeft() {
  const place = useRef<HTMLDivElement>(null);
  const [height, setHeight] = useState(LEAST_HEIGHT);
  useLayoutEffect(() => {
    const measure = () => {
      const top = place.current?.getBoundingClientRect().top ?? 0;
      setHeight(Math.max(LEAST_HEIGHT, Math.floor(window.innerHeight - top - BELOW)));
    };
    measure();
    window.addEventListener("resize", measure);
    return () => window.removeEventListener("resize", measure);
  }, []);
  return { place, height };
}

interface Props<T> {
  readonly label: string;
  readonly rows: readonly T[];
  readonly columns: TableColumnsType<T>;
  /** The field that tells the rows apart. */
  readonly rowKey: keyof T & string;
  readonly isLoading: boolean;
  readonly error: Error | null;
  /** What is said where there are no rows. */
  readonly empty?: ReactNode;
}

export function BigTable<T extends object>({ label, rows, columns, rowKey, isLoading, error, empty }: Props<T>) {
  const { place, height } = useHeightLeft();
  const width = columns.reduce((sum, { width }) => sum + Number(width ?? 160), 0);
  return (
    <div ref={place} role="region" aria-label={label}>
      {error === null ? null : <Problem error={error} />}
      <Table<T>
        virtual
        size="small"
        rowKey={rowKey}
        columns={columns}
        dataSource={rows}
        loading={isLoading}
        pagination={false}
        showSorterTooltip={false}
        {...(empty === undefined ? {} : { locale: { emptyText: <div className="empty">{empty}</div> } })}
        scroll={{ x: width, y: height }}
      />
    </div>
  );
}
