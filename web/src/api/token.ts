// The token of whoever has logged in. It is kept for this tab only, and gone when the tab is closed.
import { useSyncExternalStore } from "react";

const KEY = "amita-token";
const listeners = new Set<() => void>();

export function readToken(): string | null {
  return window.sessionStorage.getItem(KEY);
}

export function setToken(token: string | null): void {
  if (token === null) window.sessionStorage.removeItem(KEY);
  else window.sessionStorage.setItem(KEY, token);
  for (const listener of listeners) listener();
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

export function useToken(): string | null {
  return useSyncExternalStore(subscribe, readToken);
}
