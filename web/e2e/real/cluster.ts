// A real cluster on this machine: three nodes with a store each, left running by `amita demo --keep`, ended by `amita demo --stop`.
import { execFile, spawn } from "node:child_process";
import type { ChildProcess } from "node:child_process";
import { mkdtempSync, openSync, closeSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";

const run = promisify(execFile);
const BINARY =
  process.env.AMITA_TEST_BINARY ?? fileURLToPath(new URL("../../../target/release/amita", import.meta.url));
/** The fewest bytes that the cluster is to have room for: what the journeys make in it. */
const SIZE = "256M";
/** Of the stores that come later. */
const STORE_SIZE = "640M";

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
  /** Makes a store of a file, as of a new disk; where it is. */
  format(file: string): Promise<string>;
  /** Starts a node that was killed, with this store in the place of its own. */
  startWith(node: string, store: string): void;
  /** Starts a node more, whose identity is had by a token, as the documents say. */
  add(node: string, store: string): Promise<void>;
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

/** Until it works: what it needs has been started just now. */
async function patiently<T>(work: () => Promise<T>): Promise<T> {
  for (let left = 50; ; left -= 1) {
    try {
      return await work();
    } catch (error) {
      if (left === 0) throw error;
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
  }
}

function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve();
  return new Promise((resolve) => {
    const late = setTimeout(() => child.kill("SIGKILL"), 20_000);
    child.once("exit", () => {
      clearTimeout(late);
      resolve();
    });
    child.kill("SIGTERM");
  });
}

/** A port of loopback that is free. */
function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer().on("error", reject);
    server.listen(0, "127.0.0.1", () => {
      const { port } = server.address() as AddressInfo;
      server.close(() => resolve(port));
    });
  });
}

/** The words that a node was started with, without the program. */
function wordsOf(pid: number): string[] {
  return readFileSync(`/proc/${pid}/cmdline`, "utf8").split("\0").slice(1, -1);
}

/** The same words with other values of options. */
function changed(words: readonly string[], values: Readonly<Record<string, string>>): string[] {
  return words.map((word, at) => values[words[at - 1] ?? ""] ?? word);
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
  const words = new Map(found.nodes.map(({ name, pid }) => [name, wordsOf(pid)]));
  const started: ChildProcess[] = [];
  const begin = (name: string, args: readonly string[]): ChildProcess => {
    const path = join(folder, `${name}.more.log`);
    const log = openSync(path, "a");
    const child = spawn(BINARY, args, { env: environment({}), stdio: ["ignore", log, log] });
    closeSync(log);
    child.once("exit", (code) => {
      if (code !== 0 && code !== null) console.error(`${name} has ended with ${code}:\n${readFileSync(path, "utf8")}`);
    });
    started.push(child);
    return child;
  };
  const stop = async (): Promise<void> => {
    await Promise.all(started.map(end));
    await run(BINARY, ["demo", "--stop", "--dir", folder], { env: environment({}) });
    const left = endLeft([...found.nodes.map(({ pid }) => pid), found.metadata.pid]);
    rmSync(folder, { recursive: true, force: true });
    if (left.length > 0) throw new Error(`\`amita demo --stop\` has left processes: ${left.join(", ")}`);
  };
  const token = found.env.AMITA_TOKEN;
  if (token === undefined) throw new Error("the cluster has made no token");
  const env = environment(found.env);
  const joinBy = async (node: string): Promise<string> => {
    const authority = join(folder, "ca");
    const made = await run(BINARY, ["node", "token", node, "--ca", authority], { env: environment({}) });
    const token = join(folder, `${node}.token`);
    writeFileSync(token, made.stdout, { mode: 0o600 });
    const listen = `127.0.0.1:${await freePort()}`;
    const served = begin("ca", ["ca", "serve", "--ca", authority, "--listen", listen]);
    const identity = join(folder, `${node}.identity`);
    const args = ["node", "join", node, "--ca-server", listen, "--token-file", token, "--identity", identity];
    try {
      await patiently(() => run(BINARY, args, { env: environment({}) }));
    } finally {
      await end(served);
    }
    return identity;
  };
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
    format: async (file) => {
      const store = join(folder, file);
      await run(BINARY, ["disk", "format", store, "--size", STORE_SIZE], { env: environment({}) });
      return store;
    },
    startWith: (name, store) => {
      begin(name, changed(words.get(name)!, { "--store": store }));
    },
    add: async (name, store) => {
      const identity = await joinBy(name);
      const like = words.get(found.nodes[0]!.name)!;
      const [fabric, nbd, nvme] = [await freePort(), await freePort(), await freePort()];
      const values = {
        "--name": name,
        "--fabric": `127.0.0.1:${fabric}`,
        "--nbd": `127.0.0.1:${nbd}`,
        "--nvme": `127.0.1.4:${nvme}`,
        "--nbd-socket": join(folder, "sockets", `${name}.nbd`),
        "--identity": identity,
        "--store": store,
      };
      begin(name, changed(like, values));
    },
    stop,
  };
}
