// What the tests run beside them: real brokers and servers, each a process of its own.
// PUBSUB_NODE is the path of pubsub-node; without it, the one in PATH is taken.
import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync, existsSync } from "node:fs";
import { createServer, connect as dial } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import mqtt from "mqtt";
import { Lost, connect } from "padme-client";

export const PATIENCE = 60_000; // ms, on a machine that is busy

const bin = process.env.PUBSUB_NODE ?? "pubsub-node";
const running = new Set();
process.on("exit", () => running.forEach((child) => child.kill("SIGKILL")));

/** eventually waits until f is true, or something that is. */
export async function eventually(what, f) {
  for (const end = Date.now() + PATIENCE; Date.now() < end; await sleep(10)) {
    const value = await f();
    if (value) return value;
  }
  throw new Error(`waited in vain until ${what}`);
}

/** unlessBusy does f again if a hold was lost meanwhile, as happens on a machine that is busy. */
export async function unlessBusy(f) {
  for (let tries = 5; ; tries--) {
    try {
      return await f();
    } catch (error) {
      if (!(error instanceof Lost) || tries === 1) throw error;
    }
  }
}

/** start runs a program until the end of the test, at the latest. */
export function start(command, ...args) {
  const child = spawn(command, args, { stdio: ["pipe", "pipe", "pipe"] });
  child.text = "";
  child.stdout.on("data", (data) => { child.text += data; });
  child.stderr.on("data", (data) => { child.text += data; });
  child.gone = new Promise((resolve) => child.once("close", resolve).once("error", (error) => resolve(child.text = error.message)));
  child.gone.then(() => running.delete(child));
  running.add(child);
  return child;
}

async function kill(child) {
  child.kill("SIGKILL");
  await child.gone;
}

const freePort = () => new Promise((resolve, reject) => {
  const server = createServer().once("error", reject).listen(0, "127.0.0.1", () => {
    const { port } = server.address();
    server.close(() => resolve(port));
  });
});

const answers = (port) => new Promise((resolve) => {
  const socket = dial(port, "127.0.0.1", () => resolve(socket.destroy() && true)).once("error", () => resolve(false));
});

/** site is a broker with what runs around it. */
export class Site {
  #dir = mkdtempSync(join(tmpdir(), "padme-client-"));
  #children = [];
  #clients = [];
  #proxies = [];

  /** kind is "embedded" or "mosquitto"; more are flags of `pubsub-node broker`. */
  async broker(kind, ...more) {
    this.port = await freePort();
    this.url = `mqtt://127.0.0.1:${this.port}`;
    if (kind === "embedded") this.child(bin, "broker", "--listen", `127.0.0.1:${this.port}`, "--timing", "lan", "--memory", ...more);
    else this.child("mosquitto", "-c", this.file("mosquitto.conf", `listener ${this.port} 127.0.0.1\nallow_anonymous true\nset_tcp_nodelay true\nuser root\n`));
    await eventually("the broker serves", () => answers(this.port));
    return this;
  }

  file(name, text) {
    const path = join(this.#dir, name);
    writeFileSync(path, text);
    return path;
  }

  child(...command) {
    const child = start(...command);
    this.#children.push(child);
    return child;
  }

  /** serve runs a server for every lock. */
  async serve(id, ...more) {
    const ready = join(this.#dir, id);
    const child = this.child(bin, "serve", "--broker", this.url, "--id", id, "--ready-file", ready, ...more);
    await eventually(`${id} serves`, () => {
      if (child.exitCode !== null) throw new Error(`${id} has ended: ${child.text}`);
      return existsSync(ready);
    });
    return child;
  }

  /** users writes a users file: [name, role, password]. */
  users(...all) {
    const path = join(this.#dir, "users");
    for (const [name, role, password] of all) {
      const args = ["broker", "passwd", path, name, ...(role ? ["--role", role] : [])];
      const { status, stderr } = spawnSync(bin, args, { input: password + "\n" });
      if (status !== 0) throw new Error(`passwd: ${stderr}`);
    }
    return path;
  }

  /** command runs pubsub-node to its end. */
  async command(...args) {
    const child = this.child(bin, "--broker", this.url, ...args);
    await child.gone;
    if (child.exitCode !== 0) throw new Error(`${args.join(" ")}: ${child.text}`);
  }

  async client(options, url = this.url) {
    const client = await connect(url, options);
    this.#clients.push(client);
    return client;
  }

  /** raw is a bare MQTT client, to look and to meddle. */
  async raw() {
    const client = await mqtt.connectAsync(this.url, { protocolVersion: 4 });
    this.#clients.push({ close: () => client.endAsync(true) });
    return client;
  }

  /** proxy stands before the broker. */
  async proxy() {
    const proxy = new Proxy(this.port);
    this.#proxies.push(proxy);
    await proxy.listen();
    return proxy;
  }

  async end() {
    await Promise.all(this.#clients.map((client) => client.close()));
    await Promise.all([...this.#children.map(kill), ...this.#proxies.map((proxy) => proxy.close())]);
    rmSync(this.#dir, { recursive: true });
  }
}

/** Proxy carries bytes until it is cut. */
class Proxy {
  #pairs = new Set();
  #server;
  #cut = false;
  turnedAway = 0; // connections while it is cut

  constructor(port) {
    this.target = port;
    this.#server = createServer((near) => {
      if (this.#cut) {
        this.turnedAway++;
        return near.destroy();
      }
      const far = dial(this.target, "127.0.0.1");
      const pair = [near, far];
      this.#pairs.add(pair);
      const drop = () => {
        this.#pairs.delete(pair);
        pair.forEach((socket) => socket.destroy());
      };
      pair.forEach((socket) => socket.setNoDelay().on("error", drop).on("close", drop));
      near.pipe(far).pipe(near);
    });
  }

  async listen() {
    await new Promise((resolve) => this.#server.listen(0, "127.0.0.1", resolve));
    this.url = `mqtt://127.0.0.1:${this.#server.address().port}`;
  }

  /** cut ends all connections, and lets nobody in until restore. */
  cut() {
    this.#cut = true;
    this.drop();
  }

  restore() { this.#cut = false; }

  /** drop ends all connections; new ones are let in. */
  drop() { for (const [near] of [...this.#pairs]) near.destroy(); }

  close() {
    this.cut();
    return new Promise((resolve) => this.#server.close(resolve));
  }
}

/** Guard is what a lock protects: it notes who is inside and complains of two, and of fences that fall. */
export class Guard {
  inside = 0;
  fences = [];

  async visit(hold, ms) {
    if (++this.inside > 1) throw new Error(`${this.inside} are inside`);
    if (this.fences.length > 0 && hold.fence <= this.fences.at(-1)) throw new Error(`fence ${hold.fence} after ${this.fences.at(-1)}`);
    this.fences.push(hold.fence);
    await sleep(ms);
    this.inside--;
  }
}

export { sleep };
