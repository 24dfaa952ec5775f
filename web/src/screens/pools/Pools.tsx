import { usePlace } from "../../lib/router";
import { PoolList } from "./PoolList";
import { PoolPage } from "./PoolPage";

/** `#/pools`, and `#/pools/NAME`. */
export default function Pools() {
  const name = usePlace().path[1];
  return name === undefined ? <PoolList /> : <PoolPage key={name} name={name} />;
}
