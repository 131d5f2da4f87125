// What callers write, for the types: it is compiled and not run.
import { ANY, Busy, Denied, LockError, Lost, NoServer, TimedOut, connect, type Client, type Hold, type LockOptions } from "padme-client";

export async function use(signal: AbortSignal): Promise<bigint> {
  await using client: Client = await connect("mqtts://broker", { username: "panel", password: "secret", mqtt: { ca: "" } });
  await using hold = await client.lock("crane", { resource: "hook", priority: 5, timeout: 30_000, signal });
  hold.check();
  const { models, resources, open, ttl } = await client.show("crane");
  const options: LockOptions = { resource: resources[0] ?? ANY, within: ttl, hold: open ? 1 : models.length };
  const waiting = client.lock("crane", options);
  waiting.raise(1);
  const place: number | undefined = waiting.position;
  const second: Hold = await waiting;
  await second.release();
  const n: number = await client.withLock("crane", async (h) => (h.signal.aborted ? 0 : place ?? 1));
  const s: string = await client.withLock("crane", { priority: n }, (h) => h.resource);
  await client.close();
  return hold.fence + BigInt(s.length);
}

export function explain(error: unknown): string {
  if (error instanceof Denied) return error.reason;
  if (error instanceof Busy || error instanceof TimedOut || error instanceof Lost || error instanceof NoServer) return error.message;
  return error instanceof LockError ? error.name : "";
}

export async function misuse(client: Client, hold: Hold) {
  // @ts-expect-error a slip in an option
  await client.lock("crane", { prioritiy: 5 });
  // @ts-expect-error a priority is a number
  await client.lock("crane", { priority: "5" });
  // @ts-expect-error a name is needed
  await client.lock();
  // @ts-expect-error a function is needed
  await client.withLock("crane", {});
  // @ts-expect-error it cannot be set
  hold.fence = 1n;
}
