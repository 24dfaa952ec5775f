import { usePlace } from "../../lib/router";
import { VolumeList } from "./VolumeList";
import { VolumePage } from "./VolumePage";

/** `#/volumes`, and `#/volumes/NAME`. */
export default function Volumes() {
  const name = usePlace().path[1];
  return name === undefined ? <VolumeList /> : <VolumePage key={name} name={name} />;
}
