interface Props<T extends string> {
  readonly label: string;
  readonly value: T;
  readonly options: readonly (readonly [T, string])[];
  readonly onChange: (value: T) => void;
}

/** One of a few, by the browser's own list. */
export function Choice<T extends string>({ label, value, options, onChange }: Props<T>) {
  return (
    <select className="field" aria-label={label} value={value} onChange={(event) => onChange(event.target.value as T)}>
      {options.map(([value, text]) => (
        <option key={value} value={value}>
          {text}
        </option>
      ))}
    </select>
  );
}
