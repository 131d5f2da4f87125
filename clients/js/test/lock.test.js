// Locks as their users use them, at both brokers.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { ANY, Busy, Denied, Lost, TimedOut } from "padme-client";
import { Guard, PATIENCE, Site, eventually, sleep, unlessBusy } from "./site.js";

for (const kind of ["embedded", "mosquitto"]) {
  describe(kind, { concurrency: true, timeout: 3 * PATIENCE }, () => {
    const site = new Site();
    let a, b, c;
    before(async () => {
      await site.broker(kind);
      await site.serve("gw");
      [a, b, c] = await Promise.all(["a", "b", "c"].map((id) => site.client({ id })));
      await a.withLock("warm", () => {}); // the server has its place
    });
    after(() => site.end());

    test("one is inside at a time, and fences rise", async () => {
      const guard = new Guard();
      await Promise.all([a, b, c, a].map(async (client) => {
        for (let i = 0; i < 5; i++) await client.withLock("crane", (hold) => guard.visit(hold, 5));
      }));
      assert.equal(guard.fences.length, 20);
    });

    test("one warning for all names of a lock", async (t) => {
      const said = [], { warn } = console;
      console.warn = (text) => said.push(text);
      t.after(() => { console.warn = warn; });
      for (let i = 0; i < 5; i++) await c.withLock("parts", { resource: `r${i}` }, () => {});
      assert.equal(said.filter((text) => text.includes('"parts"')).length, 1, said.join("\n"));
    });

    test("withLock hands on what the function does, and releases", async () => {
      assert.equal(await a.withLock("hands on", () => 7), 7);
      await assert.rejects(a.withLock("hands on", () => { throw new Error("mine"); }), /mine/);
      assert.equal(await b.withLock("hands on", { wait: false }, async () => 8), 8);
    });

    test("a hold outlasts many renewals", () => unlessBusy(async () => {
      const hold = await a.lock("long");
      await sleep(7000); // more than twice the TTL
      hold.check();
      assert.equal(hold.signal.aborted, false);
      await assert.rejects(b.lock("long", { wait: false }), Busy);
      await hold.release();
      assert.throws(() => hold.check(), /was released: lock it again/);
      assert.equal(hold.signal.aborted, false);
    }));

    test("a request keeps its place for longer than its lease", async () => {
      for (let tries = 5; ; tries--) { // a machine that is busy may let a lease end
        const hold = await a.lock("lease"), early = b.lock("lease", { lease: 600 });
        await sleep(200);
        const late = c.lock("lease");
        await sleep(1500);
        await hold.release();
        const order = [];
        await Promise.all([early, late].map((each, i) => each.then((next) => order.push(i) && next.release())));
        if (order[0] === 0) return;
        assert.notEqual(tries, 1, "it was always put behind whoever came later");
      }
    });

    test("a hold can be disposed of", async () => {
      const dispose = Symbol.asyncDispose ?? Symbol.for("Symbol.asyncDispose");
      const hold = await a.lock("dispose");
      assert.equal(typeof hold.fence, "bigint");
      await hold[dispose]();
      await (await b.lock("dispose", { wait: false })).release();
    });

    test("wait: false is busy at once, and says what to do", async () => {
      const hold = await a.lock("busy");
      await assert.rejects(b.lock("busy", { wait: false }), (error) => error instanceof Busy && /leave out "wait: false"/.test(error.message));
      await hold.release();
      await (await b.lock("busy", { wait: false })).release();
    });

    test("the most important is next, and a request that waits can be raised", () => unlessBusy(async () => {
      const first = await a.lock("order"), order = [], spy = await site.raw();
      let state;
      spy.on("message", (_topic, payload) => { state = JSON.parse(payload); });
      await spy.subscribeAsync("padme/v1/default/lock/order/default/state");
      const enter = (client, name, priority) => {
        const waiting = client.lock("order", { priority });
        waiting.done = waiting.then(async (hold) => {
          order.push(name);
          await hold.release();
        });
        return waiting;
      };
      const late = enter(a, "late", 300), mid = enter(b, "mid", 200), soon = enter(c, "soon", 5);
      await eventually("all have a position", () => first.check() ?? (late.position && mid.position && soon.position));
      assert.throws(() => late.raise(400), RangeError);
      late.raise(1);
      await eventually("it is the next", () => late.position === 1);
      await eventually("the root knows it, too", () => state?.queue?.some((waiter) => waiter.priority === 1));
      await first.release();
      await Promise.all([late.done, mid.done, soon.done]);
      assert.deepEqual(order, ["late", "soon", "mid"]);
      assert.equal(late.position, undefined);
    }));

    test("a timeout ends the waiting, and the request is withdrawn", async () => {
      const hold = await a.lock("timeout");
      const begun = performance.now();
      await assert.rejects(b.lock("timeout", { timeout: 400 }), (error) => error instanceof TimedOut && /within 400 ms: (it is number 1 in line|no answer from .*): give a longer timeout/.test(error.message));
      assert.ok(performance.now() - begun >= 399);
      await hold.release();
      await (await c.lock("timeout", { wait: false })).release();
    });

    test("a signal withdraws a request that waits, and leaves a hold", async () => {
      const hold = await a.lock("abort");
      const abort = new AbortController();
      const waiting = b.lock("abort", { signal: abort.signal });
      await eventually("it waits", () => waiting.position);
      abort.abort(new Error("enough"));
      await assert.rejects(waiting, /enough/);
      await assert.rejects(b.lock("abort", { signal: abort.signal }), /enough/);
      await hold.release();
      const mine = new AbortController();
      const held = await c.lock("abort", { wait: false, signal: mine.signal });
      mine.abort();
      held.check();
      await held.release();
    });

    test("resources are locked apart from each other, also any of them", async () => {
      await a.withLock("resources", () => {}); // now there is one
      await site.command("lock", "configure", "resources", "--resources", "hook 1,grab");
      await assert.rejects(a.lock("resources"), (error) => error instanceof Denied && error.reason === "undeclared" && /give a resource that the lock declares/.test(error.message));
      const hook = await a.lock("resources", { resource: "hook 1" });
      assert.equal(hook.resource, "hook 1");
      const any = await b.lock("resources", { resource: ANY });
      assert.equal(any.resource, "grab");
      const next = c.lock("resources", { resource: ANY });
      await eventually("it waits", () => next.position);
      await hook.release();
      assert.equal((await next).resource, "hook 1");
      await Promise.all([any.release(), (await next).release()]);
    });

    test("what holds for a lock can be shown, and a deadline is promised, refused or missed", async () => {
      await site.command("lock", "create", "press", "--resources", "ram", "--models", "deadline-forward-forward-forward");
      assert.deepEqual(await a.show("press"), { models: "deadline-forward-forward-forward", resources: ["ram"], open: false, ttl: 3000 });
      await a.withLock("press", { resource: "ram" }, () => {}); // from now on it can be promised
      const hold = await a.lock("press", { resource: "ram", within: 30_000, hold: 20_000 });
      await assert.rejects(b.lock("press", { resource: "ram", within: 2000 }), (error) => error instanceof Denied && error.reason === "unattainable" && /longer within/.test(error.message));
      await hold.release();
      const crane = await a.lock("missed");
      await assert.rejects(b.lock("missed", { within: 300, timeout: 60_000 }), (error) => error instanceof TimedOut && /within 300 ms/.test(error.message));
      await crane.release();
    });

    test("more requests than a server takes of one client wait for their turn", async () => {
      const client = await site.client(), hold = await client.lock("crowd"), order = [];
      const all = Array.from({ length: 280 }, (_, i) => {
        const waiting = client.lock("crowd", { priority: 280 - i });
        waiting.done = waiting.then((h) => {
          order.push(280 - i);
          return h.release();
        });
        return waiting;
      });
      await eventually("the first 255 wait", () => all.slice(0, 255).every((waiting) => waiting.position));
      await assert.rejects(client.lock("crowd", { wait: false }), Busy);
      await assert.rejects(client.lock("crowd", { timeout: 200 }), (error) => error instanceof TimedOut && /other requests of this client come first/.test(error.message));
      await hold.release();
      await Promise.all(all.map((waiting) => waiting.done));
      assert.equal(order.length, 280);
      assert.deepEqual(order.slice(-24), order.slice(-24).sort((x, y) => x - y));
    });

    test("an operator ends what waits", async () => {
      const hold = await a.lock("evict"), waiting = b.lock("evict");
      const ended = assert.rejects(waiting, (error) => error instanceof Denied && error.reason === "gone" && /an operator ended/.test(error.message));
      await eventually("it waits", () => waiting.position);
      await site.command("lock", "evict", "evict", "b");
      await ended;
      await hold.release();
    });

    test("one connection has many locks", async () => {
      const client = await site.client();
      const holds = await Promise.all(Array.from({ length: 20 }, (_, i) => client.lock(`many-${i}`)));
      holds.forEach((hold) => hold.check());
      await sleep(3500); // all are renewed
      holds.forEach((hold) => hold.check());
      await Promise.all(holds.map((hold) => hold.release()));
    });

    test("two clients of one name do not meddle with each other", async () => {
      const [one, two] = await Promise.all([site.client({ id: "twin" }), site.client({ id: "twin" })]);
      const guard = new Guard();
      await Promise.all([one, two].map(async (client) => {
        for (let i = 0; i < 5; i++) await client.withLock("twins", (hold) => guard.visit(hold, 5));
      }));
      assert.equal(guard.fences.length, 10);
    });

    test("close releases, withdraws and tells", async () => {
      const client = await site.client();
      const hold = await client.lock("close");
      const waiting = client.lock("close");
      await eventually("it waits", () => waiting.position);
      const [outcome] = await Promise.all([waiting.catch((error) => error), client.close()]);
      assert.ok(outcome instanceof Denied && outcome.reason === "closed", String(outcome));
      assert.ok(hold.signal.reason instanceof Lost);
      assert.throws(() => hold.check(), Lost);
      await assert.rejects(client.lock("close"), /connect again/);
      await (await a.lock("close", { wait: false })).release();
    });
  });
}
