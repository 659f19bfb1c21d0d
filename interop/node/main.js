'use strict';
// Cases for node-zookeeper-client on one server: main.js server proxy control [part of a case name].

const { ACL, CreateMode, Exception, Id, Permission } = require('node-zookeeper-client');
const { Events, Fixture, equal, eventually, fails, run, sleep } = require('./suite');

const SHORT_TIMEOUT_MS = 2000;
/** Not null, because this client cannot send null data. */
const CHANGED = Buffer.from('changed');

async function createAndStat(test) {
  const { zk } = test;
  const path = await test.node('a', 'one');
  equal(test.path('a'), path);
  equal(1, (await zk.setData(path, Buffer.from('three'), -1)).version);
  await test.node('a/b');
  const { data, stat } = await zk.getData(path);
  equal('three', data.toString());
  equal([1, 1, 1, 5], [stat.version, stat.cversion, stat.numChildren, stat.dataLength]);
  await zk.remove(path + '/b', -1);
  equal(2, (await zk.exists(path)).cversion);
  await zk.remove(path, 1);
  equal(null, await zk.exists(path));
  equal(undefined, (await zk.getData(await zk.create(test.path('null')))).data);
}

async function errors(test) {
  const { zk } = test;
  const path = await test.node('a');
  await fails(Exception.NODE_EXISTS, test.node('a'));
  await fails(Exception.NO_NODE, test.node('x/y'));
  await fails(Exception.NO_NODE, zk.getData(test.path('x')));
  await fails(Exception.BAD_VERSION, zk.setData(path, CHANGED, 7));
  await fails(Exception.BAD_VERSION, zk.remove(path, 7));
  await test.node('a/b');
  await fails(Exception.NOT_EMPTY, zk.remove(path, -1));
  await zk.create(test.path('e'), null, CreateMode.EPHEMERAL);
  await fails(Exception.NO_CHILDREN_FOR_EPHEMERALS, test.node('e/x'));
}

async function sequenceAndEphemeral(test) {
  const owner = await test.connect();
  equal(test.path('n-0000000000'), await owner.create(test.path('n-'), null, CreateMode.PERSISTENT_SEQUENTIAL));
  equal(test.path('n-0000000001'), await owner.create(test.path('n-'), null, CreateMode.EPHEMERAL_SEQUENTIAL));
  const stat = await test.zk.exists(test.path('n-0000000001'));
  equal(owner.session, stat.ephemeralOwner.toString('hex'));
  owner.raw.close();
  await eventually('the ephemeral node is deleted', async () => (await test.zk.getChildren(test.root)).names.length === 1);
}

async function trees(test) {
  const { zk } = test;
  await zk.mkdirp(test.path('a/b/c'));
  await test.node('a/d');
  const all = ['a', 'a/b', 'a/d'].map((rest) => test.path(rest));
  // Despite its name, listSubTreeBFS lists one level only.
  equal(all, (await zk.listSubTreeBFS(test.path('a'))).sort());
  await zk.removeRecursive(test.path('a/b'), -1);
  equal(['d'], (await zk.getChildren(test.path('a'))).names);
}

async function largeData(test) {
  const data = Buffer.alloc(1000000, 'oxkeeper');
  await test.zk.create(test.path('a'), data);
  equal(0, data.compare((await test.zk.getData(test.path('a'))).data));
}

async function pipelined(test) {
  const path = await test.node('a');
  const versions = Array.from({ length: 300 }, (_, i) => test.zk.setData(path, Buffer.from(String(i)), -1));
  const last = test.zk.getData(path);
  equal(Array.from({ length: 300 }, (_, i) => i + 1), (await Promise.all(versions)).map((stat) => stat.version));
  equal('299', (await last).data.toString());
}

function commit(transaction) {
  return new Promise((resolve) => transaction.commit((error, results) => resolve({ error, results })));
}

async function transactions(test) {
  await test.node('old');
  const { error, results } = await commit(
    test.zk.transaction()
      .check(test.path('old'))
      .create(test.path('a'), Buffer.from('x'))
      .create(test.path('a/s-'), null, undefined, CreateMode.EPHEMERAL_SEQUENTIAL)
      .setData(test.path('a'), Buffer.from('y'))
      .remove(test.path('old')));
  equal([null, 5], [error, results.length]);
  equal([test.path('a'), test.path('a/s-0000000000')], [results[1].path, results[2].path]);
  equal(1, results[3].stat.version);
  equal('y', (await test.zk.getData(test.path('a'))).data.toString());

  const failed = await commit(
    test.zk.transaction().create(test.path('b')).create(test.path('a')).remove(test.path('a')));
  equal(Exception.NODE_EXISTS, failed.error.code);
  equal([0, Exception.NODE_EXISTS, Exception.RUNTIME_INCONSISTENCY], failed.results.map((result) => result.err));
  equal(null, await test.zk.exists(test.path('b')));
}

async function watches(test) {
  const { zk } = test;
  const [exists, parent, data, children] = [new Events(), new Events(), new Events(), new Events()];
  await zk.exists(test.path('a'), exists);
  await zk.getChildren(test.root, parent);
  const path = await test.node('a');
  await exists.expect(`NODE_CREATED ${path}`);
  await parent.expect(`NODE_CHILDREN_CHANGED ${test.root}`);
  await zk.getData(path, data);
  await zk.getChildren(path, children);
  await zk.setData(path, CHANGED, -1);
  await data.expect(`NODE_DATA_CHANGED ${path}`);
  await zk.setData(path, CHANGED, -1);
  await data.expectNone();
  await test.node('a/b');
  await children.expect(`NODE_CHILDREN_CHANGED ${path}`);
  await zk.remove(path + '/b', -1);
  await zk.getData(path, data);
  await zk.remove(path, -1);
  await data.expect(`NODE_DELETED ${path}`);
}

async function acls(test) {
  const bob = await test.connect();
  bob.raw.addAuthInfo('digest', Buffer.from('bob:pw'));
  const path = await bob.create(test.path('a'), Buffer.from('secret'), ACL.CREATOR_ALL_ACL);
  const mine = (await bob.getACL(path)).acls[0];
  equal(['digest', 'bob:ikIaKsbtGweaHnb/jKn7OHqbunM='], [mine.id.scheme, mine.id.id]);
  equal(Permission.ALL, mine.permission);
  const anonymous = await test.connect();
  await fails(Exception.NO_AUTH, anonymous.getData(path));
  await fails(Exception.NO_AUTH, anonymous.setData(path, CHANGED, -1));
  await fails(Exception.INVALID_ACL, anonymous.create(test.path('b'), null, ACL.CREATOR_ALL_ACL));
  await bob.setACL(path, [new ACL(Permission.READ, new Id('ip', '127.0.0.1'))], -1);
  equal('secret', (await anonymous.getData(path)).data.toString());
  await fails(Exception.NO_AUTH, bob.setData(path, CHANGED, -1));
  await test.zk.setData(path, CHANGED, -1);
}

async function reconnect(test) {
  const client = await test.connectByProxy();
  const session = client.session;
  const [data, exists, children, quiet] = [new Events(), new Events(), new Events(), new Events()];
  for (const name of ['changed', 'parent', 'same']) await test.node(name);
  await client.create(test.path('e'), null, CreateMode.EPHEMERAL);
  await client.getData(test.path('changed'), data);
  await client.exists(test.path('created'), exists);
  await client.getChildren(test.path('parent'), children);
  await client.getData(test.path('same'), quiet);
  await test.command('block');
  await client.states.awaitItem('DISCONNECTED');
  await test.zk.setData(test.path('changed'), CHANGED, -1);
  await test.node('created');
  await test.node('parent/child');
  await test.command('open');
  await client.states.awaitItem('SYNC_CONNECTED');
  equal(session, client.session);
  await data.expect(`NODE_DATA_CHANGED ${test.path('changed')}`);
  await exists.expect(`NODE_CREATED ${test.path('created')}`);
  await children.expect(`NODE_CHILDREN_CHANGED ${test.path('parent')}`);
  await test.zk.setData(test.path('same'), CHANGED, -1);
  await quiet.expect(`NODE_DATA_CHANGED ${test.path('same')}`);
  equal(session, (await client.exists(test.path('e'))).ephemeralOwner.toString('hex'));
}

async function expiry(test) {
  const client = await test.connectByProxy({ sessionTimeout: SHORT_TIMEOUT_MS });
  await client.create(test.path('e'), null, CreateMode.EPHEMERAL);
  const deleted = new Events();
  await test.zk.exists(test.path('e'), deleted);
  await test.command('block');
  await deleted.expect(`NODE_DELETED ${test.path('e')}`);
  await test.command('open');
  await client.states.awaitItem('EXPIRED');
}

async function idle(test) {
  const client = await test.connectByProxy({ sessionTimeout: 1000 });
  await client.create(test.path('e'), null, CreateMode.EPHEMERAL);
  await sleep(2500);
  equal(client.session, (await test.zk.exists(test.path('e'))).ephemeralOwner.toString('hex'));
}

async function serverRestart(test) {
  const client = await test.connectByProxy();
  const session = client.session;
  await client.create(test.path('e'), null, CreateMode.EPHEMERAL);
  await test.node('a', 'before');
  const changed = new Events();
  await client.getData(test.path('a'), changed);
  await test.command('restart');
  await client.states.awaitItem('DISCONNECTED');
  await client.states.awaitItem('SYNC_CONNECTED');
  equal(session, client.session);
  equal(session, (await client.exists(test.path('e'))).ephemeralOwner.toString('hex'));
  await client.setData(test.path('a'), Buffer.from('after'), -1);
  await changed.expect(`NODE_DATA_CHANGED ${test.path('a')}`);
}

const CASES = [
  ['create and stat', createAndStat],
  ['errors', errors],
  ['sequence and ephemeral', sequenceAndEphemeral],
  ['trees', trees],
  ['large data', largeData],
  ['pipelined', pipelined],
  ['transactions', transactions],
  ['watches', watches],
  ['acls', acls],
  ['reconnect', reconnect],
  ['expiry', expiry],
  ['idle session lives by pings', idle],
  ['server restart', serverRestart],
];

const [server, proxy, control, part] = process.argv.slice(2);
if (control === undefined) {
  console.error('usage: main.js server proxy control [part of a case name]');
  process.exit(2);
}
run(new Fixture(server, proxy, control), CASES, part).then((code) => process.exit(code));
