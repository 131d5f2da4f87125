// Who serves, and who does not: nobody, somebody who is busy, users who may not.
import assert from "node:assert/strict";
import { after, before, describe, test } from "node:test";
import { Busy, Denied, NoServer, TimedOut } from "padme-client";
import { PATIENCE, Site, eventually } from "./site.js";

describe("a broker without a server", { concurrency: true, timeout: PATIENCE }, () => {
  const site = new Site();
  before(() => site.broker("mosquitto"));
  after(() => site.end());

  test("says that nobody serves, and what to start", async () => {
    const client = await site.client();
    const want = (error) => error instanceof NoServer && /nobody at mqtt:\S+ serves.*: start "pubsub-node broker" or "pubsub-node serve"/.test(error.message);
    await Promise.all([
      assert.rejects(client.lock("crane", { timeout: 1500 }), want),
      assert.rejects(client.lock("crane", { wait: false }), want),
      assert.rejects(client.lock("crane"), want),
    ]);
  });

  test("a server that is busy is not taken for none", async () => {
    const [client, server] = await Promise.all([site.client(), site.raw()]);
    const presence = "padme/v1/busy/presence/gw";
    const busy = await site.client({ domain: "busy" });
    await server.publishAsync(presence, JSON.stringify({ alive: true, incarnation: "1", epoch: "1", since: "", userData: { serves: "locks" } }), { qos: 1, retain: true });
    await eventually("it is known", () => busy.servers.length > 0);
    await assert.rejects(busy.lock("crane", { timeout: 1000 }), (error) => error instanceof TimedOut && /no answer from gw, which is busy/.test(error.message));
    await server.publishAsync(presence, "", { qos: 1, retain: true });
    await eventually("it is known to be gone", () => busy.servers.length === 0);
    await assert.rejects(busy.lock("crane", { timeout: 1000 }), NoServer);
    assert.deepEqual(client.servers, []);
  });

  test("what a server says that is too busy is asked again, and told in the end", async () => {
    const [client, server] = await Promise.all([site.client({ domain: "full", id: "me" }), site.raw()]);
    let asked = 0;
    server.on("message", (topic, payload) => {
      const { id, session, op, sent } = JSON.parse(payload);
      if (op !== "acquire") return;
      asked++;
      server.publish(topic.replace("request", "answer"), JSON.stringify({ id, session, op, sent, outcome: "denied", reason: "overload", detail: "the server is busy", gateway: "gw" }));
    });
    await server.subscribeAsync("padme/v1/full/lock/+/client/+/request");
    await assert.rejects(client.lock("crane", { timeout: 5000 }), (error) => error instanceof TimedOut && /the server is busy: try again later/.test(error.message));
    assert.ok(asked >= 2, `asked ${asked} times`);
    await assert.rejects(client.lock("crane", { wait: false }), Busy);
  });

  test("a server that is not ready does not end the waiting before its time", async () => {
    const [client, server] = await Promise.all([site.client({ domain: "new", id: "me" }), site.raw()]);
    const ids = new Set();
    server.on("message", (topic, payload) => {
      const { id, session, op, sent } = JSON.parse(payload);
      if (op !== "acquire") return;
      ids.add(id);
      const [, , , , lock] = topic.split("/");
      const granted = lock === "soon" && ids.size > 1;
      const how = granted ? { outcome: "granted", resource: "default", fence: "1", valid_ms: 9000 } : { outcome: "denied", reason: "not_ready", detail: "its root has just begun" };
      server.publish(topic.replace("request", "answer"), JSON.stringify({ id, session, op, sent, gateway: "gw", ...how }));
    });
    await server.subscribeAsync("padme/v1/new/lock/+/client/+/request");
    await (await client.lock("soon", { timeout: PATIENCE })).release();
    assert.equal(ids.size, 2, "an id that was denied stays so");
    for (const time of [{ timeout: 300 }, { within: 300 }]) {
      await assert.rejects(client.lock("never", time), (error) => error instanceof TimedOut && /its root has just begun/.test(error.message));
    }
    await assert.rejects(client.lock("never", { wait: false }), (error) => error instanceof Denied && error.reason === "not_ready");
  });

  test("a hold is renewed ever sooner until it ends, whatever one says that stands by", async () => {
    const [client, server] = await Promise.all([site.client({ domain: "mute", id: "me" }), site.raw()]);
    let renewals = 0;
    server.on("message", (topic, payload) => {
      const { id, session, op, sent } = JSON.parse(payload);
      const answer = (more) => server.publish(topic.replace("request", "answer"), JSON.stringify({ id, session, op, sent, resource: "default", ...more }));
      if (op === "acquire") answer({ outcome: "granted", fence: "1", valid_ms: 3000, gateway: "gw" });
      if (op === "acquire") answer({ outcome: "waiting", reason: "not_ready", detail: "its root has just begun", valid_ms: 1470, gateway: "standby" });
      if (op === "renew") renewals++;
      if (op === "release") answer({ outcome: "released", gateway: "gw" });
    });
    await server.subscribeAsync("padme/v1/mute/lock/+/client/+/request");
    const hold = await client.lock("crane");
    await eventually("it is lost", () => hold.signal.aborted);
    assert.match(hold.signal.reason.message, /no renewal was answered in time/);
    assert.ok(renewals > 4, `${renewals} renewals`);
    await hold.release();
  });

  test("a release is repeated until it is heard", async () => {
    const [client, server] = await Promise.all([site.client({ domain: "deaf", id: "me" }), site.raw()]);
    let releases = 0;
    server.on("message", (topic, payload) => {
      const { id, session, op, sent } = JSON.parse(payload);
      if (op === "release" && ++releases < 4) return;
      const outcome = op === "release" ? "released" : "granted";
      server.publish(topic.replace("request", "answer"), JSON.stringify({ id, session, op, sent, outcome, resource: "default", fence: "1", valid_ms: 9000, gateway: "gw" }));
    });
    await server.subscribeAsync("padme/v1/deaf/lock/+/client/+/request");
    const hold = await client.lock("crane");
    await hold.release();
    assert.ok(releases < 4, "release() waits for the first answers only");
    await eventually("it is heard", () => releases === 4);
  });

  test("what is not an answer is left alone", async () => {
    const [client, server] = await Promise.all([site.client({ domain: "odd", id: "me" }), site.raw()]);
    const answer = "padme/v1/odd/lock/crane/client/me/answer";
    let said = false;
    server.on("message", (_topic, payload) => {
      const { id, session } = JSON.parse(payload);
      for (const text of ["", "hello", "[]", "null", "7", `{"id":"${id}"}`, `{"id":"${id}","session":"${session}"}`, `{"id":"${id}","session":"another","outcome":"granted","fence":"1","valid_ms":9999,"sent":1}`,
        `{"id":"${id}","session":"${session}","outcome":"granted","fence":"1","valid_ms":9999,"sent":1}`]) server.publish(answer, text);
      server.publish("padme/v1/odd/presence/x", "{");
      server.publish("padme/v1/odd/presence/x", '{"alive":true,"epoch":"x"}');
      said = true;
    });
    await server.subscribeAsync("padme/v1/odd/lock/+/client/+/request");
    await assert.rejects(client.lock("crane", { timeout: 1500 }), TimedOut, "an answer to what was never sent grants nothing");
    assert.ok(said);
  });
});

describe("pubsub-node broker alone", { timeout: PATIENCE }, () => {
  const site = new Site();
  before(() => site.broker("embedded"));
  after(() => site.end());

  test("serves locks, and says so", async () => {
    const client = await site.client();
    await client.withLock("crane", { timeout: PATIENCE / 2 }, () => {});
    await eventually("its presence says so", () => client.servers.length === 1);
  });
});

describe("a broker with users", { timeout: PATIENCE }, () => {
  const site = new Site();
  before(async () => {
    const users = site.users(["panel", "client", "secret"], ["host", "gateway", "secret"], ["screen", "observer", "secret"]);
    await site.broker("embedded", "--users", users);
    await site.serve("host", "--user", "host", "--password-file", site.file("password", "secret\n"));
  });
  after(() => site.end());

  test("lets its users lock under their names", async () => {
    const client = await site.client({ username: "panel", password: "secret" });
    assert.equal(client.id, "panel");
    await client.withLock("crane", () => {});
    const again = await site.client({}, site.url.replace("//", "//panel:secret@"));
    assert.equal(again.id, "panel");
    assert.ok(!again.url.includes("secret"), again.url);
    await again.withLock("crane", () => {});
  });

  test("tells who waits that it refuses a client that comes back", async () => {
    const stricter = new Site(), proxy = await site.proxy();
    await stricter.broker("embedded", "--users", stricter.users(["other", "client", "secret"]));
    const client = await site.client({ username: "panel", password: "secret" }, proxy.url);
    const hold = await client.lock("crane"), waiting = client.lock("crane");
    const refused = assert.rejects(waiting, (error) => error instanceof Denied && error.reason === "not_authorized");
    await eventually("it waits", () => waiting.position);
    proxy.target = stricter.port;
    proxy.drop();
    await refused;
    await hold.release();
    await stricter.end();
  });

  test("refuses others, and says what to give", async () => {
    const want = (error) => error instanceof Denied && error.reason === "not_authorized" && /give username and password/.test(error.message);
    await assert.rejects(site.client({ username: "panel", password: "wrong" }), want);
    await assert.rejects(site.client({}), want);
  });

  test("tells a user that may not lock what it lacks", async () => {
    const denied = (text) => (error) => error instanceof Denied && error.reason === "not_authorized" && text.test(error.message);
    await assert.rejects(site.client({ username: "screen", password: "secret" }), denied(/user "screen" may connect to .*, but not lock: give a user with the role client \(`pubsub-node broker passwd/));
    await assert.rejects(site.client({ username: "panel", password: "secret", id: "crane-driver" }), denied(/user "panel" may connect to .*, but not lock: give no id but the user name \(it is "crane-driver"\)/));
  });
});
