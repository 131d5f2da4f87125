/// <reference lib="esnext.disposable" />
// Distributed locks over MQTT: see README.md.

/** As a resource: whichever of those that the lock declares is free first. */
export const ANY: "*";

export interface ConnectOptions {
  /**
   * The client's name, as "pubsub-node lock clients" shows it. The user name if there is
   * one (a broker with users takes no other), else a random one.
   */
  id?: string;
  username?: string;
  password?: string;
  /** The first level of all topics. Default: "padme". */
  prefix?: string;
  /** Which of the worlds below it. Default: "default". */
  domain?: string;
  /** Further options of mqtt.js, such as ca, cert and key for mqtts:// in Node.js. */
  mqtt?: Record<string, unknown>;
}

export interface LockOptions {
  /** Which of the lock's resources, or ANY. Default: "default". */
  resource?: string;
  /** An integer; smaller is more important. Default: 100. */
  priority?: number;
  /** For how long to wait at most, in ms; then TimedOut. Default: as long as it takes. */
  timeout?: number;
  /** false: now or not at all; then Busy. Default: true. */
  wait?: boolean;
  /**
   * Be granted within this time, in ms, or not at all: TimedOut. A lock whose models promise
   * deadlines refuses at once, with Denied ("unattainable"), what it cannot promise.
   */
  within?: number;
  /** For how long it will be held, in ms: the deadlines of others are promised on it. */
  hold?: number;
  /**
   * For how long the server keeps the request without a sign of life, in ms, 200 to 600,000.
   * Default: 10,000. A hold ends before, when it is not good any more.
   */
  lease?: number;
  /** Aborting it withdraws a request that waits; lock() rejects with its reason. A hold stays. */
  signal?: AbortSignal;
}

/**
 * Connects to a broker: mqtt://, mqtts://, ws:// or wss:// in Node.js, ws:// or wss:// in
 * a browser. Rejects with NoServer if no broker answers within 10 s, with Denied
 * ("not_authorized") if it refuses, and with a TypeError if an argument cannot be. A
 * connection that is lost later is made again until close().
 */
export function connect(url: string, options?: ConnectOptions): Promise<Client>;

/** A connection to a broker, for any number of locks. */
export interface Client extends AsyncDisposable {
  readonly id: string;
  /** Where the broker is, without a password. */
  readonly url: string;

  /**
   * Waits until the lock is had. Rejects with Busy, TimedOut, NoServer, Denied, the
   * reason of the signal, or a TypeError or RangeError for an argument that cannot be.
   */
  lock(name: string, options?: LockOptions): Waiting;

  /**
   * Runs f while it holds the lock, and resolves to what f does. It waits for f, and then
   * releases the lock whatever happened. Rejects as lock() does, with what f throws, or
   * with Lost if the lock was lost before f was done; hold.signal tells f of that at once.
   */
  withLock<T>(name: string, f: (hold: Hold) => T | PromiseLike<T>): Promise<T>;
  withLock<T>(name: string, options: LockOptions, f: (hold: Hold) => T | PromiseLike<T>): Promise<T>;

  /**
   * What holds for a lock as a whole. Rejects with NoServer, Busy, Denied, or a TypeError
   * for a name that cannot be.
   */
  show(name: string): Promise<Shown>;

  /**
   * Releases what is held, withdraws what waits, and disconnects. It takes some 3 s at
   * most, and never rejects.
   */
  close(): Promise<void>;
}

/** How a lock is set up; "pubsub-node lock configure" changes it. */
export interface Shown {
  /** How it chooses who is next, as docs/choosing.md has it: "level-forward-forward-forward". */
  readonly models: string;
  /** Those that it declares. */
  readonly resources: readonly string[];
  /** Whether any other name is a resource, too. */
  readonly open: boolean;
  /** After how many ms a silent holder counts as dead. */
  readonly ttl: number;
}

/** A request that waits: a promise of its hold. */
export interface Waiting extends Promise<Hold> {
  /** The place in line while it waits, as far as the server knows; 1 is the next. */
  readonly position: number | undefined;
  /** Makes a request that waits more important. Throws a RangeError if that would be less important than before. */
  raise(priority: number): void;
}

/** A lock that is held. */
export interface Hold extends AsyncDisposable {
  /**
   * A number that rises with every entry. Hand it to what the lock protects, and have that
   * refuse a lower one than it has seen: no lock stops a computer that was asleep.
   */
  readonly fence: bigint;
  /** Which resource it is: with ANY, the one that was free. */
  readonly resource: string;
  /** Aborted, with a Lost, when the hold is lost. Not by release(). */
  readonly signal: AbortSignal;
  /** Throws Lost unless the lock is held at this instant. Call it right before each effect. */
  check(): void;
  /** Gives the lock back. It takes 1.5 s at most, and never rejects: what nobody hears of ends with its lease. */
  release(): Promise<void>;
}

/** What all errors of this package have in common. */
export class LockError extends Error {}
/** With wait: false the lock is held, or too many wait for it. */
export class Busy extends LockError {}
/** The timeout, or within, is over. */
export class TimedOut extends LockError {}
/** A hold is over although its holder has not released it. */
export class Lost extends LockError {}
/** The request cannot be served. */
export class Denied extends LockError {
  constructor(reason: string, message: string);
  /** A word to test for: those of docs/clients.md, "not_authorized", "closed", and "gone": an operator ended it. */
  readonly reason: string;
}
/** No broker answers, or nobody there serves locks. */
export class NoServer extends LockError {}
