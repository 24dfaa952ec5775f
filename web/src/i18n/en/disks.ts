// What becomes of disks, nodes and pools.
export const disks = {
  "disk.class": "Class",
  "disk.class.title": "Class of {path} of {node}",
  "disk.class.about": "Pools may ask for a class: groups of theirs that lie here move then.",
  "disk.class.none": "As you call it: nvme, ssd, hdd; empty: none.",
  "disk.replace": "Replace",
  "disk.replace.title": "Replace {path} of {node}",
  "disk.replace.about":
    "A new store takes its place, as far as the pools' rules allow; the rest is drained to others. The old one may be dead already.",
  "disk.replace.done": "The new store takes {groups} groups over; {others} go to others.",
  "disk.by": "The store that takes its place",
  "disk.forget": "Forget",
  "disk.forget.title": "Forget {path} of {node}",
  "disk.forget.about":
    "It is taken out of the records, and its data is lost to the cluster. It is refused while a group still needs it. Store {id}.",
  "node.remove": "Remove",
  "node.remove.title": "Remove node {name}",
  "node.remove.about":
    "For a node that is not coming back: it and its {stores} stores are taken out of the records for good. It is refused while the node lives, and while groups still need its stores.",
  "pool.rule": "Set rule",
  "pool.rule.title": "Rule of {name}",
  "pool.rule.about":
    "Its groups are placed anew, and move as far as they must. Fewer copies are fewer failures that are borne.",
  "pool.rule.copies": "Of each block.",
  "pool.rule.force": "Also when it cannot be met with the stores that there are",
  "pool.delete": "Delete",
  "pool.delete.title": "Delete pool {name}",
  "pool.delete.about":
    "It is gone for good. It is refused while it has volumes, or deleted ones that can be had back, and while a policy is for it. Its stores stay.",
  "node.addresses": "Addresses",
  "node.address.more": "More: {field}",
  "node.api": "API and page",
  "node.metrics": "Metrics",
  "node.nbd_socket": "NBD socket",
  "node.links": "Its links to other nodes",
  "node.links.none": "None is known to be bad.",
  "node.links.silent": "It has not told what it finds, or not of late.",
  "topology.sick.about": "is to blame for bad links",
  "topology.sick.network": "Links between most nodes are bad: nobody is blamed.",
  "node.drain": "Drain all stores",
  "node.drain.title": "Drain all stores of {name}",
  "node.drain.about":
    "The data of {count} stores moves to others, as the rules allow. They serve until the last group is elsewhere; then the node can go.",
  "node.undrain": "Use all stores again",
  "node.undrain.title": "Use all stores of {name} again",
  "node.undrain.about": "The drains of {count} stores end.",
};
