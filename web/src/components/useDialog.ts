import { useCallback, useState } from "react";
import type { ReactNode } from "react";

type Close = () => void;

/** A place for one dialog: `show` puts one there, and it says itself when it is to go. */
export function useDialog(): { dialog: ReactNode; show: (make: (close: Close) => ReactNode) => void } {
  const [dialog, setDialog] = useState<ReactNode>(null);
  const close = useCallback(() => setDialog(null), []);
  const show = useCallback((make: (close: Close) => ReactNode) => setDialog(make(close)), [close]);
  return { dialog, show };
}
