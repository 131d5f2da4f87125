// The five steps of the tour: what each points at, what it waits for, and which control of the page causes it.
import { numberOf } from "./model.js";
import { called, seconds } from "./panels.js";
import { poolOf } from "./pool.js";

// A step has a title, a text and what it starts from: begin(run, now). look(run, now, memory, may) is what there is
// to say, {says, done, target, act}: what it points at, a selector or a robot's name; and the selector of the control
// that causes the event, or undefined if there is none or the page may not use it. sides, of the step or of what it
// says, is where its card goes first.

const upper = (s) => s[0].toUpperCase() + s.slice(1);
const cutButton = (robot) => `#robots li[data-robot="${robot}"] [data-act=cut]`;

const told = (run, now) => run.scene.frequencies.map((f) => run.frequency(f, now));
const certain = (run, now) => told(run, now).filter((f) => !f.doubt);

const lock = {
  title: "A lock",
  text: "Each radio frequency is a lock. The robot that holds it may send pictures, and no other robot.",
  sides: ["left"],
  begin: () => ({ holder: "" }),
  look(run, now, memory) {
    const f = run.frequency(run.scene.frequencies[0], now);
    const target = `[data-frequency="${run.scene.frequencies[0]}"]`;
    if (!f.holder || f.doubt) return { target, says: memory.holder ? "It is on its way to another robot." : "Wait a moment, until a robot gets it." };
    const who = called(f.holder, f.via);
    memory.holder ||= who;
    if (memory.holder === who) return { target, says: `${upper(who)} holds it. Wait a moment, until another robot gets it.` };
    return { target, done: true, says: `${upper(memory.holder)} had ${f.name} MHz, and now ${who} has it. Two at a time never have it: the page counts that as “overlaps”.` };
  },
};

const priority = {
  title: "A priority",
  text: "Robots wait here for a frequency. The more survivors a robot sees, the smaller its priority number, and the sooner it is its turn. The number may change while it waits.",
  begin: () => ({ holders: new Map(), queue: [] }),
  look(run, now, memory, may) {
    const target = "#queue";
    if (!run.view?.models?.startsWith("level")) {
      return { target, says: `Everybody sends in turn now, so the number decides nothing.${may ? " Choose “level” for the priority." : ""}`, act: may ? "[data-model=Priority][data-value=level]" : undefined };
    }
    const all = certain(run, now), { queue } = poolOf(all);
    const news = overtaking(all, memory, queue);
    Object.assign(memory, { queue, holders: new Map(all.map((f) => [f.name, f.holder])) });
    if (!news) return { target, says: "Wait until an important robot goes before one that has waited longer." };
    const { winner, frequency, loser } = news;
    return {
      target, done: true,
      says: `${upper(called(winner.participant))} (priority ${winner.priority}) got ${frequency} MHz before ${called(loser.participant)} (priority ${loser.priority}), which has waited longer: ${seconds(now - loser.since)}.`,
    };
  },
};

// overtaking is who just got a frequency before somebody less important that has waited longer and still waits, or undefined.
function overtaking(all, memory, queue) {
  for (const f of all) {
    if (!f.holder || f.via || f.holder === memory.holders.get(f.name)) continue;
    const winner = memory.queue.find((w) => w.participant === f.holder && !w.via);
    const loser = winner && queue.find((w) => !w.via && w.since < winner.since && w.priority > winner.priority);
    if (loser) return { winner, frequency: f.name, loser };
  }
}

const shadow = {
  title: "A shadow",
  text: "Ruins block radio. If a robot in a radio shadow holds a frequency, it can neither use it nor give it back. After one second the lock takes it away.",
  begin: () => ({ silent: new Map(), robot: "" }),
  look(run, now, memory, may) {
    const all = told(run, now).filter((f) => !f.via && numberOf(f.holder)); // who is cut off is in doubt
    for (const [f, robot] of memory.silent) if (!isSilent(run, robot)) memory.silent.delete(f); // it may have given it back
    const lost = all.find((f) => memory.silent.has(f.name) && memory.silent.get(f.name) !== f.holder);
    const loser = lost && memory.silent.get(lost.name);
    const mute = all.find((f) => f.silent);
    for (const f of all) if (f.silent) memory.silent.set(f.name, f.holder);
    memory.robot = mute?.holder ?? inShadow(run, memory.robot);
    const target = memory.robot || "#map";
    if (lost) return { target: lost.holder, done: true, says: `${upper(called(loser))} was cut off and has lost ${lost.name} MHz. ${upper(called(lost.holder))} has it now.` };
    if (mute) return { target, says: `${upper(called(mute.holder))} holds ${mute.name} MHz and is cut off. Wait a second.` };
    const sender = all.toSorted((a, b) => b.since - a.since)[0]?.holder; // that has it for the longest time to come
    return { target, says: `Wait until a robot with a frequency walks into a shadow.${may ? " Or cut the radio of one that sends: “Cut radio” does the same." : ""}`, act: may && sender ? cutButton(sender) : undefined };
  },
};

const isSilent = (run, name) => run.robots.some((r) => r.name === name && (r.shadow || r.cut));

// inShadow is a robot in a shadow, the same as before if it still is, or "".
function inShadow(run, before) {
  const all = run.robots.filter((r) => r.shadow && !r.dead).map((r) => r.name);
  return all.includes(before) ? before : (all[0] ?? "");
}

const root = {
  title: "The root is killed",
  text: "One participant, the root, decides who is next. If it dies, another one takes over, and who has a frequency keeps it.",
  begin: (run) => ({ root: run.view?.root ?? "" }),
  look(run, now, memory, may) {
    const is = run.view?.root ?? "";
    memory.root ||= is;
    if (is && is !== memory.root) return { target: "#root", done: true, says: `${upper(called(memory.root))} is dead, and ${called(is)} is the root. A ▲ in the timeline marks the moment.` };
    if (run.locks.alive(memory.root) === false) return { target: "#root", says: `${upper(called(memory.root))} is dead. Wait a second or two for the next root.` };
    return { target: may ? "#kill-root" : "#root", act: may ? "#kill-root" : undefined, says: may ? "Press the button “Kill the root”." : "Wait until it happens, or go on." };
  },
};

const fair = {
  title: "Fair",
  text: "Under the model Level, a robot that sees nothing may wait forever. Under Fair, everybody sends in turn.",
  begin: () => ({}),
  look(run, now, memory, may) {
    const button = "[data-model=Priority][data-value=fair]", target = may ? button : ".time";
    if (run.view?.models?.startsWith("fair")) {
      return { target: ".time", sides: ["above"], done: true, says: "Fair is in force. The timeline shows the change, and the table who gets the airtime. To learn why a robot waits or got a frequency, click on it in the queue or the timeline." };
    }
    if (may && run.locks.alive("center") === false) return { target, says: "Only the rescue center changes the models, and it is dead. It is back in some seconds." };
    return { target, act: may ? button : undefined, says: may ? "Press the button “fair”." : "The rescue center changes the models once during the run. Wait for it, or go on." };
  },
};

/** STEPS are those of the tour, in order. */
export const STEPS = [lock, priority, shadow, root, fair];

/** standstill says why nothing that a step waits for can happen now, or "". */
export function standstill(run, now) {
  if (run.scene.over) return "The run is over, so nothing happens any more. Start the demo again, for example with --duration 10m, and the tour goes on here.";
  return run.live(now) ? "" : "Nothing is heard from the demo. The tour goes on when it is back.";
}
