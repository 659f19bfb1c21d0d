'use strict';
// Runs cases one after the other and prints a line for each.

const net = require('net');
const util = require('util');
const zookeeper = require('node-zookeeper-client');

const CASE_TIMEOUT_MS = 30000;
const WAIT_MS = 10000;
const QUIET_MS = 150;

/** Ends a case that this server cannot run. */
class Skip extends Error {}

/** The server under test, a proxy before it, and the port that disturbs both. */
class Stage {
  constructor(server, proxy, control) {
    Object.assign(this, { server, proxy, control });
  }

  /** Sends a control command and waits until it has taken effect. */
  async command(word) {
    const [host, port] = this.control.split(':');
    const socket = net.connect(Number(port), host);
    socket.write(word + '\n');
    let answer = '';
    for await (const chunk of socket) {
      answer += chunk;
      if (answer.endsWith('\n')) break;
    }
    answer = answer.trim();
    if (answer === 'error: not our server') throw new Skip('the server is not ours to restart');
    if (answer !== 'ok') throw new Error(`${word}: ${answer}`);
  }
}

/** A client with promises in place of callbacks. */
class Client {
  constructor(address, options = {}) {
    this.raw = zookeeper.createClient(address, { sessionTimeout: 10000, spinDelay: 50, ...options });
    this.states = new Events();
    this.raw.on('state', (state) => this.states.add(state.getName()));
    for (const name of ['create', 'remove', 'removeRecursive', 'setData', 'setACL', 'mkdirp', 'listSubTreeBFS']) {
      this[name] = util.promisify(this.raw[name]).bind(this.raw);
    }
    this.transaction = () => this.raw.transaction();
  }

  async start() {
    this.raw.connect();
    await this.states.awaitItem('SYNC_CONNECTED');
    return this;
  }

  get session() {
    return this.raw.getSessionId().toString('hex');
  }

  getData(path, events) {
    return this.read('getData', path, events, (data, stat) => ({ data, stat }));
  }

  getChildren(path, events) {
    return this.read('getChildren', path, events, (names, stat) => ({ names: names.sort(), stat }));
  }

  exists(path, events) {
    return this.read('exists', path, events, (stat) => stat);
  }

  getACL(path) {
    return new Promise((resolve, reject) =>
      this.raw.getACL(path, (error, acls, stat) => (error ? reject(error) : resolve({ acls, stat }))));
  }

  read(method, path, events, result) {
    const watcher = events && ((event) => events.add(`${event.getName()} ${event.getPath()}`));
    return new Promise((resolve, reject) =>
      this.raw[method](path, watcher, (error, ...values) => (error ? reject(error) : resolve(result(...values)))));
  }
}

/** Things that have happened, in order. */
class Events {
  constructor() {
    this.items = [];
    this.wake = () => {};
  }

  add(item) {
    this.items.push(item);
    this.wake();
  }

  async next(waitMs = WAIT_MS) {
    if (this.items.length === 0) {
      let timer;
      await new Promise((resolve) => {
        this.wake = resolve;
        timer = setTimeout(resolve, waitMs);
      });
      clearTimeout(timer);
    }
    return this.items.shift();
  }

  async expect(item) {
    equal(item, await this.next());
  }

  async expectNone() {
    equal(undefined, await this.next(QUIET_MS));
  }

  /** Skips items until this one. */
  async awaitItem(wanted) {
    for (;;) {
      const item = await this.next();
      if (item === undefined) throw new Error(`${wanted} did not come`);
      if (item === wanted) return;
    }
  }
}

/** One running case: a node of its own to work below, and clients that are closed when it ends. */
class Case {
  constructor(stage, name) {
    this.stage = stage;
    this.root = '/node-' + name.replaceAll(' ', '-');
    this.clients = [];
  }

  async begin() {
    // Straight to the server, allowed everything, for preparing and looking.
    this.zk = await this.connect();
    this.zk.raw.addAuthInfo('digest', Buffer.from('super:test'));
    if (await this.zk.exists(this.root)) await this.removeTree(this.root);
    await this.zk.create(this.root);
  }

  /** The client's own removeRecursive sees one level only. */
  async removeTree(path) {
    for (const name of (await this.zk.getChildren(path)).names) await this.removeTree(`${path}/${name}`);
    await this.zk.remove(path, -1);
  }

  async end() {
    await this.stage.command('open');
    this.clients.forEach((client) => client.raw.close());
  }

  connect(options) {
    return this.open(this.stage.server, options);
  }

  connectByProxy(options) {
    return this.open(this.stage.proxy, options);
  }

  open(address, options) {
    const client = new Client(address, options);
    this.clients.push(client);
    return client.start();
  }

  path(rest) {
    return `${this.root}/${rest}`;
  }

  async node(rest, data = '') {
    return this.zk.create(this.path(rest), Buffer.from(data));
  }

  command(word) {
    return this.stage.command(word);
  }
}

/** Runs all cases whose name contains `part`; returns the exit code. */
async function run(stage, cases, part = '') {
  let passed = 0;
  let failed = 0;
  let skipped = 0;
  for (const [name, body] of cases.filter(([name]) => name.includes(part))) {
    const start = Date.now();
    const test = new Case(stage, name);
    try {
      await withTimeout(test.begin().then(() => body(test)));
      passed += 1;
      console.log(`ok   ${name} ${Date.now() - start}`);
    } catch (error) {
      if (error instanceof Skip) {
        skipped += 1;
        console.log(`skip ${name} ${error.message}`);
      } else {
        failed += 1;
        console.error(error);
        console.log(`fail ${name} ${String(error).replaceAll('\n', ' ')}`);
      }
    }
    await test.end();
  }
  console.log(`node: ${passed} passed, ${failed} failed, ${skipped} skipped`);
  return failed === 0 ? 0 : 1;
}

function withTimeout(work) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`not done after ${CASE_TIMEOUT_MS} ms`)), CASE_TIMEOUT_MS);
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}

function equal(expected, actual) {
  if (!util.isDeepStrictEqual(expected, actual)) {
    throw new Error(`expected ${util.inspect(expected)}, got ${util.inspect(actual)}`);
  }
}

async function fails(code, promise) {
  let result;
  try {
    result = await promise;
  } catch (error) {
    equal(code, error.code);
    return;
  }
  throw new Error(`expected error ${code}, got ${util.inspect(result)}`);
}

async function eventually(what, condition) {
  const deadline = Date.now() + WAIT_MS;
  while (!(await condition())) {
    if (deadline < Date.now()) throw new Error(`expected soon: ${what}`);
    await sleep(20);
  }
}

function sleep(ms) {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

module.exports = { Events, Stage, equal, eventually, fails, run, sleep };
