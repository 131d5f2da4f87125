// What is checked before anything is sent.
import assert from "node:assert/strict";
import { test } from "node:test";
import { connect } from "padme-client";
import { isBefore, later } from "../src/clock.js";
import { decodeLevel, encodeLevel } from "../src/level.js";
import { lockOptions } from "../src/options.js";
import { Servers } from "../src/servers.js";

test("a slip in an option is named", () => {
  for (const [name, options, want] of [
    ["crane", { prioritiy: 5 }, /no option "prioritiy": it has resource, priority, timeout, wait, within, hold, lease, signal/],
    ["crane", { priority: 1.5 }, /priority of 1.5: give an integer/],
    ["crane", { priority: "5" }, /priority of 5: give an integer/],
    ["crane", { timeout: 0 }, /timeout of 0: .* wait: false/],
    ["crane", { timeout: 2 ** 31 }, /timeout of 2147483648: give a number of milliseconds from 1/],
    ["crane", { timeout: NaN }, /timeout of NaN/],
    ["crane", { wait: 5 }, /wait is true or false/],
    ["crane", { resource: "" }, /the resource "" has 0 bytes/],
    ["crane", null, /options of lock are an object/],
    ["crane\n", {}, /leave out control characters/],
    ["crane", { resource: "x".repeat(129) }, /has 129 bytes: give 1 to 128/],
    [7, {}, /the name of the lock is a number: give a string/],
    ["crane", { resource: {} }, /the resource is an object: give a string/],
    ["crane", { resource: ["hook"] }, /the resource is an object: give a string/],
    ["crane", { resource: null }, /the resource is null: give a string/],
    [undefined, {}, /the name of the lock is missing: give a string/],
    ["crane", { timeout: "5" }, /timeout of "5": give a number/],
    ["crane", { within: 0 }, /within of 0: give a number/],
    ["crane", { hold: NaN }, /hold of NaN/],
    ["crane", { lease: 199 }, /lease of 199.*from 200 to 600000/],
    ["crane", { within: 5, wait: false }, /no timeout or within/],
    ["yard/b", {}, /give lock\("yard", \{ resource: "b" \}\)/],
    ["x".repeat(121), {}, /has 121 bytes: give 1 to 120/],
    ["gateway", {}, /"gateway" has a meaning of its own/],
    ["+", {}, /the name of the lock "\+" is a wildcard of MQTT/],
    ["#", {}, /the name of the lock "#" is a wildcard of MQTT/],
    [" ", {}, /the name of the lock " " is blank/],
    ["crane", { resource: "+" }, /the resource "\+" is a wildcard of MQTT/],
    ["crane", { resource: "\u3000" }, /the resource .* is blank/],
  ]) assert.throws(() => lockOptions(name, options), want);
  assert.deepEqual(lockOptions("crane 1", {}), { lock: "crane 1", level: "crane%201", resource: "default", wait: true, timeout: undefined, within: undefined, hold: undefined, lease: undefined, signal: undefined, priority: 100 });
});

test("a URL that cannot be is named", async () => {
  await assert.rejects(connect("127.0.0.1"), /is no URL: give one like mqtt:\/\/127.0.0.1/);
  await assert.rejects(connect("http://127.0.0.1"), /begins with "http:": give mqtt:\/\//);
  await assert.rejects(connect("mqtt://127.0.0.1", { usr: "me" }), /no option "usr"/);
  await assert.rejects(connect("mqtt://127.0.0.1", { id: "#" }), /the id "#" is a wildcard of MQTT/);
  await assert.rejects(connect("mqtt://127.0.0.1", { password: "x" }), /give username, too/);
});

test("names become levels and come back", () => {
  for (const [name, level] of [["crane", "crane"], ["146.520", "146%2E520"], ["a/b~*", "a%2Fb%7E%2A"], ["Ä %", "Ä%20%25"]]) {
    assert.equal(encodeLevel(name, "name"), level);
    assert.equal(decodeLevel(level), name);
  }
});

test("an instant is before a limit if both clocks say so", () => {
  const limit = later({ mono: 1000, wall: 500_000 }, 300);
  assert.ok(isBefore({ mono: 1299, wall: 500_299 }, limit));
  assert.ok(!isBefore({ mono: 1300, wall: 500_299 }, limit));
  assert.ok(!isBefore({ mono: 1010, wall: 500_300 }, limit), "performance.now() stood still while the machine slept");
  assert.ok(!isBefore({ mono: 1300, wall: 400_000 }, limit), "the wall clock was set back");
});

test("servers are known by their presences", () => {
  const servers = new Servers(), tell = (epoch, alive, userData) => JSON.stringify({ alive, incarnation: "1", epoch: String(epoch), since: "", userData });
  assert.equal(servers.heard("gw%2E1", tell(9007199254740993n, true, { serves: "locks" })), true);
  assert.equal(servers.heard("robot", tell(1, true)), false);
  assert.deepEqual(servers.names, ["gw.1"]);
  assert.equal(servers.heard("gw%2E1", tell(9007199254740992n, false)), false, "a last will of an earlier connection");
  assert.deepEqual(servers.names, ["gw.1"]);
  assert.equal(servers.heard("gw%2E1", tell(9007199254740993n, false)), true);
  assert.deepEqual(servers.names, []);
  servers.heard("gw%2E1", tell(9007199254740994n, true, { serves: "locks" }));
  assert.equal(servers.heard("gw%2E1", ""), true, "it closed");
  assert.deepEqual(servers.names, []);
});
