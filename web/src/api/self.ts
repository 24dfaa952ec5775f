import { useThing } from "./queries";

/** Whether whoever looks may do this, an action as the audit log names it (`volume.create`). Until it is known: yes. */
export function useMay(action: string): boolean {
  const { data } = useThing("/api/v1/self");
  return data?.data.may.includes(action) ?? true;
}
