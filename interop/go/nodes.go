package main

import (
	"bytes"
	"fmt"
	"os"
	"sort"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

var open = zk.WorldACL(zk.PermAll)

func nodeCases(s *Suite) {
	s.test("create and stat", createAndStat)
	s.test("errors", errorsOfWrites)
	s.test("sequence and ephemeral", sequenceAndEphemeral)
	s.test("protected sequence", protectedSequence)
	s.test("container and ttl", containerAndTTL)
	s.test("children and sync", childrenAndSync)
	s.test("large data", largeData)
	s.test("concurrent requests", concurrentRequests)
	s.test("multi", multi)
	s.test("failing multi", failingMulti)
	s.test("acl", acl)
	s.test("lock", lock)
	s.test("four-letter commands", fourLetterCommands)
	s.test("reconfig", reconfig)
}

func createAndStat(c *Case) {
	path := c.node("a", "one")
	stat, err := c.zk.Set(path, []byte("three"), 0)
	check(err)
	equal(1, stat.Version)
	c.node("a/b", "")
	data, stat, err := c.zk.Get(path)
	check(err)
	equal("three", string(data))
	equal(1, stat.Cversion)
	equal(1, stat.NumChildren)
	equal(5, stat.DataLength)
	isTrue(stat.Czxid < stat.Mzxid && stat.Mzxid < stat.Pzxid, "zxids grow")
	check(c.zk.Delete(path+"/b", 0))
	exists, stat, err := c.zk.Exists(path)
	check(err)
	isTrue(exists, "the node exists")
	equal(2, stat.Cversion)
	check(c.zk.Delete(path, -1))
	exists, _, err = c.zk.Exists(path)
	check(err)
	isTrue(!exists, "the node is deleted")
}

func errorsOfWrites(c *Case) {
	path := c.node("a", "")
	create := func(rest string, flags int32, acl []zk.ACL) error {
		_, err := c.zk.Create(c.path(rest), nil, flags, acl)
		return err
	}
	fails(zk.ErrNodeExists, create("a", 0, open))
	fails(zk.ErrNoNode, create("x/y", 0, open))
	fails(zk.ErrInvalidACL, create("b", 0, nil))
	_, _, err := c.zk.Get(c.path("x"))
	fails(zk.ErrNoNode, err)
	_, err = c.zk.Set(path, nil, 7)
	fails(zk.ErrBadVersion, err)
	fails(zk.ErrBadVersion, c.zk.Delete(path, 7))
	c.node("a/b", "")
	fails(zk.ErrNotEmpty, c.zk.Delete(path, -1))
	check(create("e", zk.FlagEphemeral, open))
	fails(zk.ErrNoChildrenForEphemerals, create("e/x", 0, open))
}

func sequenceAndEphemeral(c *Case) {
	owner, _ := c.connect(c.server, sessionTimeout)
	first, err := owner.Create(c.path("n-"), nil, zk.FlagSequence, open)
	check(err)
	equal(c.path("n-0000000000"), first)
	second, err := owner.Create(c.path("n-"), nil, zk.FlagSequence|zk.FlagEphemeral, open)
	check(err)
	equal(c.path("n-0000000001"), second)
	_, stat, err := c.zk.Exists(second)
	check(err)
	equal(owner.SessionID(), stat.EphemeralOwner)
	owner.Close()
	exists, _, err := c.zk.Exists(second)
	check(err)
	isTrue(!exists, "the ephemeral node is deleted with its session")
}

func protectedSequence(c *Case) {
	path, err := c.zk.CreateProtectedEphemeralSequential(c.path("p-"), []byte("x"), open)
	check(err)
	data, _, err := c.zk.Get(path)
	check(err)
	equal("x", string(data))
}

func containerAndTTL(c *Case) {
	gone := func(path string) func() bool {
		return func() bool {
			exists, _, err := c.zk.Exists(path)
			check(err)
			return !exists
		}
	}
	container, err := c.zk.CreateContainer(c.path("c"), nil, zk.FlagContainer, open)
	check(err)
	check(c.zk.Delete(c.node("c/x", ""), -1))
	eventually("the empty container is removed", gone(container))
	ttl, err := c.zk.CreateTTL(c.path("t"), nil, zk.FlagTTL, open, 300*time.Millisecond)
	check(err)
	eventually("the TTL node is removed", gone(ttl))
}

func childrenAndSync(c *Case) {
	c.node("x", "")
	c.node("y", "")
	path, err := c.zk.Sync(c.root)
	check(err)
	equal(c.root, path)
	children, stat, err := c.zk.Children(c.root)
	check(err)
	sort.Strings(children)
	equal("[x y]", fmt.Sprint(children))
	equal(2, stat.NumChildren)
	children, _, err = c.zk.Children(c.path("x"))
	check(err)
	equal(0, len(children))
}

func largeData(c *Case) {
	data := bytes.Repeat([]byte("0123456789"), 100_000)
	c.node("a", string(data))
	back, _, err := c.zk.Get(c.path("a"))
	check(err)
	isTrue(bytes.Equal(data, back), "the data is unchanged")
}

// The client matches replies by xid, so that many goroutines can share one connection.
func concurrentRequests(c *Case) {
	var group sync.WaitGroup
	errs := make(chan error, 400)
	for i := 0; i < 200; i++ {
		group.Add(1)
		go func() {
			defer group.Done()
			path := c.path(fmt.Sprint("n", i))
			_, err := c.zk.Create(path, []byte(path), 0, open)
			errs <- err
			data, _, err := c.zk.Get(path)
			if err == nil && string(data) != path {
				err = fmt.Errorf("%s holds %s", path, data)
			}
			errs <- err
		}()
	}
	group.Wait()
	close(errs)
	for err := range errs {
		check(err)
	}
}

func multi(c *Case) {
	old := c.node("old", "")
	responses, err := c.zk.Multi(
		&zk.CheckVersionRequest{Path: old, Version: 0},
		&zk.CreateRequest{Path: c.path("a"), Data: []byte("x"), Acl: open},
		&zk.CreateRequest{Path: c.path("a/s-"), Acl: open, Flags: zk.FlagSequence | zk.FlagEphemeral},
		&zk.SetDataRequest{Path: c.path("a"), Data: []byte("y"), Version: 0},
		&zk.DeleteRequest{Path: old, Version: -1},
	)
	check(err)
	equal(5, len(responses))
	equal(c.path("a"), responses[1].String)
	equal(c.path("a/s-0000000000"), responses[2].String)
	equal(1, responses[3].Stat.Version)
	data, _, err := c.zk.Get(c.path("a"))
	check(err)
	equal("y", string(data))
}

func failingMulti(c *Case) {
	existing := c.node("existing", "")
	responses, err := c.zk.Multi(
		&zk.CreateRequest{Path: c.path("a"), Acl: open},
		&zk.CreateRequest{Path: existing, Acl: open},
		&zk.DeleteRequest{Path: existing, Version: -1},
	)
	fails(zk.ErrNodeExists, err)
	equal(3, len(responses))
	fails(nil, responses[0].Error)
	fails(zk.ErrNodeExists, responses[1].Error)
	exists, _, err := c.zk.Exists(c.path("a"))
	check(err)
	isTrue(!exists, "the failed multi has no effect")
}

func acl(c *Case) {
	bob, _ := c.connect(c.server, sessionTimeout)
	check(bob.AddAuth("digest", []byte("bob:pw")))
	path, err := bob.Create(c.path("a"), []byte("secret"), 0, zk.AuthACL(zk.PermAll))
	check(err)
	acls, _, err := bob.GetACL(path)
	check(err)
	equal(zk.DigestACL(zk.PermAll, "bob", "pw")[0], acls[0])
	anonymous, _ := c.connect(c.server, sessionTimeout)
	_, _, err = anonymous.Get(path)
	fails(zk.ErrNoAuth, err)
	_, err = anonymous.Create(c.path("b"), nil, 0, zk.AuthACL(zk.PermAll))
	fails(zk.ErrInvalidACL, err)
	stat, err := bob.SetACL(path, zk.WorldACL(zk.PermRead), 0)
	check(err)
	equal(1, stat.Aversion)
	data, _, err := anonymous.Get(path)
	check(err)
	equal("secret", string(data))
	_, err = bob.Set(path, nil, -1)
	fails(zk.ErrNoAuth, err)
	_, err = c.zk.Set(path, nil, -1)
	check(err)
}

func lock(c *Case) {
	var group sync.WaitGroup
	owners, rounds := 0, 0
	errs := make(chan error, 20)
	for i := 0; i < 2; i++ {
		conn, _ := c.connect(c.server, sessionTimeout)
		group.Add(1)
		go func() {
			defer group.Done()
			for j := 0; j < 10; j++ {
				lock := zk.NewLock(conn, c.path("lock"), open)
				if err := lock.Lock(); err != nil {
					errs <- err
					return
				}
				owners++
				if owners != 1 {
					errs <- fmt.Errorf("%d owners of the lock", owners)
				}
				time.Sleep(time.Millisecond)
				owners--
				rounds++
				if err := lock.Unlock(); err != nil {
					errs <- err
				}
			}
		}()
	}
	group.Wait()
	close(errs)
	for err := range errs {
		check(err)
	}
	equal(20, rounds)
}

func fourLetterCommands(c *Case) {
	if os.Getenv("INTEROP_TLS_CA") != "" {
		panic(skip("the client sends four-letter commands without TLS"))
	}
	// Without FLWSrvr and FLWCons, which only parse the output of old servers and fail on Apache 3.9, too.
	equal(true, zk.FLWRuok([]string{c.server}, waitTimeout)[0])
}

func reconfig(c *Case) {
	anonymous, _ := c.connect(c.server, sessionTimeout)
	_, err := anonymous.IncrementalReconfig([]string{"server.9=localhost:1:2"}, nil, -1)
	fails(zk.ErrReconfigDisabled, err)
}
