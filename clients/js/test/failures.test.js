// What breaks, and what holders and waiters are told then.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { fileURLToPath } from "node:url";
import { Busy, Lost, NoServer } from "padme-client";
import { PATIENCE, Site, eventually, sleep } from "./site.js";

const HOLDER = fileURLToPath(new URL("holder.mjs", import.meta.url));

/** aborted is when a hold is told that it is lost. */
const aborted = (hold) => new Promise((resolve) => hold.signal.addEventListener("abort", resolve));

for (const kind of ["embedded", "mosquitto"]) {
  describe(kind, { concurrency: true, timeout: 3 * PATIENCE }, () => {
    test("a killed server is replaced", async (t) => {
      const site = new Site();
      t.after(() => site.end());
      await site.broker(kind);
      const servers = { "gw-1": await site.serve("gw-1"), "gw-2": await site.serve("gw-2") };
      const [a, b] = await Promise.all([site.client(), site.client()]);
      const spy = await site.raw();
      let answering;
      spy.on("message", (_topic, payload) => { answering = JSON.parse(payload).gateway; });
      await spy.subscribeAsync("padme/v1/default/lock/crane/client/+/answer");
      const hold = await a.lock("crane");
      const waiting = b.lock("crane");
      await eventually("it waits", () => waiting.position && answering);
      const lost = aborted(hold);
      const killed = performance.now();
      (servers[answering] ?? servers["gw-1"]).kill("SIGKILL");
      if (!servers[answering]) { // the broker's own answers, and goes on
        await hold.release();
        await (await waiting).release();
        return;
      }
      const next = await waiting;
      assert.throws(() => hold.check(), Lost, "it was over before the next began");
      await lost;
      assert.match(hold.signal.reason.message, /lost \(.*\): stop what it protects, then lock again/);
      t.diagnostic(`in again ${Math.round(performance.now() - killed)} ms after the kill`);
      assert.ok(next.fence > hold.fence);
      await hold.release();
      next.check();
      await next.release();
    });

    describe("a site that lives", { concurrency: true }, () => {
      const site = new Site();
      let other;
      before(async () => {
        await site.broker(kind);
        await site.serve("gw");
        other = await site.client({ id: "other" });
        await other.withLock("warm", () => {});
      });
      after(() => site.end());

      test("a connection that is cut for long costs the hold, in time", async () => {
        const proxy = await site.proxy();
        const client = await site.client({}, proxy.url);
        const hold = await client.lock("cut long");
        const lost = aborted(hold);
        proxy.cut();
        const next = await other.lock("cut long");
        assert.throws(() => hold.check(), Lost, "it was over before the next began");
        await lost;
        assert.match(hold.signal.reason.message, /the connection is down/);
        assert.ok(next.fence > hold.fence);
        proxy.restore();
        const waiting = client.lock("cut long");
        await eventually("it is connected again, and waits", () => waiting.position);
        await next.release();
        await (await waiting).release();
      });

      test("a connection that comes back takes its waiting requests along", async () => {
        const proxy = await site.proxy();
        const client = await site.client({}, proxy.url);
        const spy = await site.raw(), gone = new Set();
        let asked; // the session of the newest request
        spy.on("message", (topic, payload) => {
          const { op, session } = JSON.parse(payload);
          if (op === "gone") gone.add(session);
          else if (op === "acquire" && topic.includes(`/${client.id}/`)) asked = session;
        });
        await spy.subscribeAsync("padme/v1/default/lock/+/client/+/request");
        const hold = await other.lock("cut short");
        const waiting = client.lock("cut short");
        await eventually("it waits", () => waiting.position);
        for (let i = 0; i < 3; i++) {
          const last = asked;
          proxy.drop();
          await eventually("it asks again, in another session", () => asked !== last && gone.has(last));
        }
        await hold.release();
        const next = await waiting;
        assert.ok(next.fence > hold.fence);
        assert.ok(!gone.has(asked), "no last will has ended it");
        await next.release();
        await client.withLock("cut short", () => {});
      });

      test("who waits tries to connect again within a fraction of the lease", async () => {
        const proxy = await site.proxy();
        const client = await site.client({}, proxy.url);
        const hold = await other.lock("short lease");
        const waiting = client.lock("short lease", { lease: 800 });
        await eventually("it waits", () => waiting.position);
        proxy.cut();
        await eventually("it has tried more often than once in some seconds", () => proxy.turnedAway > 30);
        proxy.restore();
        await hold.release();
        await (await waiting).release();
      });

      test("a hold outlasts a connection that comes back at once", async () => {
        const proxy = await site.proxy();
        const client = await site.client({}, proxy.url);
        const hold = await client.lock("kept");
        proxy.drop();
        await sleep(7000); // more than twice the TTL
        hold.check();
        await assert.rejects(other.lock("kept", { wait: false }), Busy);
        await hold.release();
        await (await other.lock("kept", { wait: false })).release();
      });

      test("a release that nobody could hear is said when there is a connection again", async () => {
        const proxy = await site.proxy();
        const client = await site.client({}, proxy.url);
        const spy = await site.raw(), said = [];
        spy.on("message", (_topic, payload) => said.push(JSON.parse(payload).op));
        await spy.subscribeAsync(`padme/v1/default/lock/unheard/client/${client.id}/request`);
        const hold = await client.lock("unheard");
        proxy.cut();
        await eventually("it is cut off", () => client.trouble);
        await assert.rejects(client.lock("unheard", { wait: false }), (error) => error instanceof NoServer && /the connection is down/.test(error.message));
        await hold.release();
        assert.ok(!said.includes("release"));
        proxy.restore();
        await eventually("it is said", () => said.includes("release"));
      });

      test("a client that is killed is followed by the next", async (t) => {
        const child = site.child(process.execPath, HOLDER, site.url, "killed");
        await eventually("it is inside", () => child.text.startsWith("in "));
        const fence = BigInt(child.text.split(" ")[1]);
        child.kill("SIGKILL");
        const begun = performance.now();
        const next = await other.lock("killed");
        assert.ok(next.fence > fence);
        t.diagnostic(`in ${Math.round(performance.now() - begun)} ms after the kill`);
        await next.release();
      });

      test("a client that was stopped for longer than it may believe says so before its next effect", async () => {
        const child = site.child(process.execPath, HOLDER, site.url, "stopped");
        await eventually("it is inside", () => child.text.startsWith("in "));
        child.kill("SIGSTOP");
        await sleep(4000);
        child.kill("SIGCONT");
        await child.gone;
        assert.match(child.text, /\nLost \d+ \d+ the hold of stopped\/default with fence \d+ is lost/);
        await (await other.lock("stopped")).release();
      });
    });
  });
}

test("a broker that is not there", async () => {
  const site = new Site();
  await assert.rejects(site.client({}, "mqtt://127.0.0.1:1"), (error) => error instanceof NoServer && /no connection to a broker at mqtt:\/\/127.0.0.1:1 \(.*ECONNREFUSED.*\): is "pubsub-node broker" running there/.test(error.message));
  await site.end();
});
