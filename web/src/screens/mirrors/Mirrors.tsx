import { usePlace } from "../../lib/router";
import { MirrorList } from "./MirrorList";
import { MirrorPage } from "./MirrorPage";

/** `#/mirrors`, and `#/mirrors/MIRROR`. */
export default function Mirrors() {
  const name = usePlace().path[1];
  return name === undefined ? <MirrorList /> : <MirrorPage key={name} name={name} />;
}
