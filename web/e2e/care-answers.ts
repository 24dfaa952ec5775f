// What the mock answers of that part.
import type { Answered, Items } from "./answers";
import { answerOf } from "./specification";
import type { Match } from "./specification";
import type { World } from "./world";

type Body = Record<string, unknown>;
const NOT_FOUND: Answered = { status: 404, problem: "not-found", detail: "there is none of that name" };

export function careList(world: World, { path }: Match): Items | undefined {
  const lists: Record<string, Items> = { "/api/v1/mirrors": world.mirrors };
  return lists[path];
}

/** One thing; null: there is none; undefined: nobody knows of it here. */
export function careOne(world: World, { path, values }: Match): unknown {
  if (path === "/api/v1/mirrors/{name}") return world.mirrors.find(({ name }) => name === values.name) ?? null;
  return undefined;
}

function changeMirror(world: World, method: string, found: Match, body: Body): Answered {
  const there = world.mirrors.find(({ name }) => name === found.values.name);
  if (there === undefined) return NOT_FOUND;
  switch (`${method} ${found.path.replace("/api/v1/mirrors/{name}", "")}`) {
    case "PATCH ":
      Object.assign(there, body);
      return { status: 200, body: there };
    case "DELETE ":
      world.mirrors = world.mirrors.filter((one) => one !== there);
      return answerOf(found.operation);
    case "POST /pause":
      there.paused = { by: world.self.name, at: 1 };
      return { status: 200, body: there };
    case "POST /resume":
      there.paused = null;
      return { status: 200, body: there };
    case "POST /resync":
      return { status: 202, body: { common: "2-116", dry_run: body.dry_run, mirror: there } };
    case "POST /demote":
      there.role = "demoting";
      return { status: 202, body: there };
    default:
      there.role = "promoting";
      return { status: 202, body: there };
  }
}

/** What is changed; undefined: it is none of this part. */
export function careChange(world: World, method: string, found: Match, body: Body): Answered | undefined {
  return found.path.startsWith("/api/v1/mirrors/{name}") ? changeMirror(world, method, found, body) : undefined;
}
