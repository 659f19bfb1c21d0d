'use strict';
// Runs cases one after the other and prints one line per case.

const net = require('net');
const util = require('util');
const zookeeper = require('node-zookeeper-client');

const CASE_TIMEOUT_MS = 30000;
const WAIT_MS = 10000;
const QUIET_MS = 150;

/** Ends a case that cannot run on this server. */
class Skip extends Error {}

/** The server under test, a proxy in front of it, and the control port that injects faults. */
class Fixture {
  constructor(server, proxy, control) {
    Object.assign(this, { server, proxy, control });
  }

  /** Sends a control command and waits for its reply, which follows its effect. */
  async command(command) {
    const [host, port] = this.control.split(':');
    const socket = net.connect(Number(port), host);
    socket.write(command + '\n');
    let reply = '';
    for await (const chunk of socket) {
      reply += chunk;
      if (reply.endsWith('\n')) break;
    }
    reply = reply.trim();
    if (reply === 'error: not our server') throw new Skip('xtask did not start the server');
    if (reply !== 'ok') throw new Error(`${command}: ${reply}`);
  }
}

/** A client with promises instead of callbacks. */
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

/** A queue of events that a case waits for. */
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

  /** Skips items until the wanted one. */
  async awaitItem(wanted) {
    for (;;) {
      const item = await this.next();
      if (item === undefined) throw new Error(`${wanted} did not arrive`);
      if (item === wanted) return;
    }
  }
}

/** A running case with a separate root node, and with clients that are closed at its end. */
class Case {
  constructor(fixture, name) {
    this.fixture = fixture;
    this.root = '/node-' + name.replaceAll(' ', '-');
    this.clients = [];
  }

  async begin() {
    // Without the proxy, authenticated as super, to prepare and inspect nodes.
    this.zk = await this.connect();
    this.zk.raw.addAuthInfo('digest', Buffer.from('super:test'));
    if (await this.zk.exists(this.root)) await this.removeTree(this.root);
    await this.zk.create(this.root);
  }

  /** Replaces the client's removeRecursive, which lists one level only. */
  async removeTree(path) {
    for (const name of (await this.zk.getChildren(path)).names) await this.removeTree(`${path}/${name}`);
    await this.zk.remove(path, -1);
  }

  async end() {
    await this.fixture.command('open');
    this.clients.forEach((client) => client.raw.close());
  }

  connect(options) {
    return this.open(this.fixture.server, options);
  }

  connectByProxy(options) {
    return this.open(this.fixture.proxy, options);
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

  command(command) {
    return this.fixture.command(command);
  }
}

/** Runs all cases whose name contains `part` and returns the exit code. */
async function run(fixture, cases, part = '') {
  let passed = 0;
  let failed = 0;
  let skipped = 0;
  for (const [name, body] of cases.filter(([name]) => name.includes(part))) {
    const start = Date.now();
    const test = new Case(fixture, name);
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
    timer = setTimeout(() => reject(new Error(`did not finish within ${CASE_TIMEOUT_MS} ms`)), CASE_TIMEOUT_MS);
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

module.exports = { Events, Fixture, equal, eventually, fails, run, sleep };
