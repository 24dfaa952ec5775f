// Where things stand: sites with racks with nodes with stores, each in the order of their names.

interface PlacedNode {
  readonly name: string;
  readonly site: string;
  readonly rack: string;
}

interface PlacedStore {
  readonly node: string;
  readonly path: string;
}

export interface NodeBox<N, S> {
  readonly node: N;
  readonly stores: readonly S[];
}

export interface Rack<N, S> {
  /** Empty: none is named. */
  readonly name: string;
  readonly nodes: readonly NodeBox<N, S>[];
}

export interface Site<N, S> {
  readonly name: string;
  readonly racks: readonly Rack<N, S>[];
}

function groupBy<T>(items: readonly T[], key: (item: T) => string): [string, T[]][] {
  const groups = new Map<string, T[]>();
  for (const item of items) {
    const group = groups.get(key(item));
    if (group === undefined) groups.set(key(item), [item]);
    else group.push(item);
  }
  return [...groups].sort(([a], [b]) => a.localeCompare(b, "en", { numeric: true }));
}

/** Stores of a node that is not known any more are left out: the list of stores has them. */
export function arrange<N extends PlacedNode, S extends PlacedStore>(
  nodes: readonly N[],
  stores: readonly S[],
): Site<N, S>[] {
  const byNode = new Map(groupBy(stores, ({ node }) => node));
  const boxes = (some: readonly N[]) =>
    groupBy(some, ({ name }) => name).flatMap(([name, same]) =>
      same.map((node) => ({ node, stores: byNode.get(name) ?? [] })),
    );
  return groupBy(nodes, ({ site }) => site).map(([site, inSite]) => ({
    name: site,
    racks: groupBy(inSite, ({ rack }) => rack).map(([rack, inRack]) => ({ name: rack, nodes: boxes(inRack) })),
  }));
}
