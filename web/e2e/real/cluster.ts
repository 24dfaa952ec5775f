// A real cluster on this machine: three nodes with a store each, left running by `amita demo --keep`, ended by `amita demo --stop`.
import { execFile } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);
const BINARY =
  process.env.AMITA_TEST_BINARY ?? fileURLToPath(new URL("../../../target/release/amita", import.meta.url));
/** The fewest bytes that the cluster is to have room for: what the journeys make in it. */
const SIZE = "256M";

interface Described {
  readonly nodes: readonly { readonly name: string; readonly pid: number; readonly nbd: string }[];
  readonly metadata: { readonly pid: number };
  readonly volume: { readonly name: string };
  readonly api: string;
  readonly env: Readonly<Record<string, string>>;
}

export interface Cluster extends Described {
  /** An operator's token. */
  readonly token: string;
  readonly folder: string;
  /** Runs a command of ours as the cluster's operator; what it prints. */
  amita(...words: string[]): Promise<string>;
  /** Runs a stock tool; what it prints. */
  tool(name: string, ...words: string[]): Promise<string>;
  /** As a crash would: nobody is told. */
  kill(node: string): void;
  stop(): Promise<void>;
}

/** Settings of another cluster, which somebody has exported, are not for this one. */
function environment(more: Readonly<Record<string, string>>): NodeJS.ProcessEnv {
  const own = Object.entries(process.env).filter(([name]) => !name.startsWith("AMITA_"));
  return { ...Object.fromEntries(own), ...more };
}

/** Ends those of ours that were to have ended by now; their numbers. One that nobody has waited for yet has no words any more. */
function endLeft(pids: readonly number[]): number[] {
  return pids.filter((pid) => {
    try {
      if (!readFileSync(`/proc/${pid}/cmdline`, "utf8").startsWith(BINARY)) return false;
      process.kill(pid, "SIGKILL");
      return true;
    } catch {
      return false;
    }
  });
}

export async function startCluster(): Promise<Cluster> {
  const folder = mkdtempSync(join(tmpdir(), "amita-journeys-"));
  try {
    await run(BINARY, ["demo", "--keep", "--dir", folder, "--nodes", "3", "--size", SIZE], { env: environment({}) });
  } catch (error) {
    rmSync(folder, { recursive: true, force: true });
    throw error;
  }
  const found = JSON.parse(readFileSync(join(folder, "cluster.json"), "utf8")) as Described;
  const stop = async (): Promise<void> => {
    await run(BINARY, ["demo", "--stop", "--dir", folder], { env: environment({}) });
    const left = endLeft([...found.nodes.map(({ pid }) => pid), found.metadata.pid]);
    rmSync(folder, { recursive: true, force: true });
    if (left.length > 0) throw new Error(`\`amita demo --stop\` has left processes: ${left.join(", ")}`);
  };
  const token = found.env.AMITA_TOKEN;
  if (token === undefined) throw new Error("the cluster has made no token");
  const env = environment(found.env);
  return {
    ...found,
    token,
    folder,
    amita: async (...words) => (await run(BINARY, words, { env })).stdout,
    tool: async (name, ...words) => (await run(name, words, { env, cwd: folder })).stdout,
    kill: (name) => {
      const node = found.nodes.find((one) => one.name === name);
      if (node === undefined) throw new Error(`there is no node ${name}`);
      process.kill(node.pid, "SIGKILL");
    },
    stop,
  };
}
