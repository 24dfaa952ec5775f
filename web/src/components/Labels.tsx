import { Mark } from "./Mark";
import { Name } from "./Name";

/** Labels, as KEY=VALUE. */
export function Labels({ labels }: { labels: Readonly<Record<string, string>> }) {
  return (
    <span className="labels">
      {Object.entries(labels).map(([key, value]) => (
        <Mark key={key}>
          <Name text={value === "" ? key : `${key}=${value}`} />
        </Mark>
      ))}
    </span>
  );
}
