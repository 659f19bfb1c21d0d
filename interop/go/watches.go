package main

import (
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"
)

func watchCases(s *Suite) {
	s.test("watches", watches)
	s.test("reconnect catches up on watches", reconnectCatchesUp)
	s.test("reconnect with many watches", reconnectManyWatches)
}

func (c *Case) getW(conn *zk.Conn, path string) <-chan zk.Event {
	_, _, events, err := conn.GetW(path)
	check(err)
	return events
}

func (c *Case) childrenW(conn *zk.Conn, path string) <-chan zk.Event {
	_, _, events, err := conn.ChildrenW(path)
	check(err)
	return events
}

func (c *Case) existsW(conn *zk.Conn, path string) <-chan zk.Event {
	_, _, events, err := conn.ExistsW(path)
	check(err)
	return events
}

func (c *Case) touch(path string) {
	_, err := c.zk.Set(path, []byte("touched"), -1)
	check(err)
}

func watches(c *Case) {
	exists, parent := c.existsW(c.zk, c.path("a")), c.childrenW(c.zk, c.root)
	path := c.node("a", "")
	expect(exists, zk.EventNodeCreated, path)
	expect(parent, zk.EventNodeChildrenChanged, c.root)
	data, children := c.getW(c.zk, path), c.childrenW(c.zk, path)
	c.touch(path)
	expect(data, zk.EventNodeDataChanged, path)
	c.node("a/b", "")
	expect(children, zk.EventNodeChildrenChanged, path)
	check(c.zk.Delete(path+"/b", -1))
	data, children, exists = c.getW(c.zk, path), c.childrenW(c.zk, path), c.existsW(c.zk, path)
	check(c.zk.Delete(path, -1))
	expect(data, zk.EventNodeDeleted, path)
	expect(children, zk.EventNodeDeleted, path)
	expect(exists, zk.EventNodeDeleted, path)
}

func reconnectCatchesUp(c *Case) {
	conn, events := c.connect(c.proxy, sessionTimeout)
	changed, parent, same := c.node("changed", ""), c.node("parent", ""), c.node("same", "")
	data, children, quiet := c.getW(conn, changed), c.childrenW(conn, parent), c.getW(conn, same)
	created := c.existsW(conn, c.path("created"))
	session := conn.SessionID()
	c.command("block")
	awaitState(events, zk.StateDisconnected)
	c.touch(changed)
	c.node("parent/child", "")
	c.node("created", "")
	c.command("open")
	awaitState(events, zk.StateHasSession)
	equal(session, conn.SessionID())
	expect(data, zk.EventNodeDataChanged, changed)
	expect(children, zk.EventNodeChildrenChanged, parent)
	expect(created, zk.EventNodeCreated, c.path("created"))
	c.touch(same)
	expect(quiet, zk.EventNodeDataChanged, same)
}

// The client has to split its setWatches request, because there are too many watches for one.
func reconnectManyWatches(c *Case) {
	conn, events := c.connect(c.proxy, sessionTimeout)
	long := strings.Repeat("long-name-", 20)
	var all []<-chan zk.Event
	for i := 0; i < 1000; i++ {
		all = append(all, c.existsW(conn, c.path(fmt.Sprint(long, i))))
	}
	c.command("drop")
	awaitState(events, zk.StateDisconnected)
	awaitState(events, zk.StateHasSession)
	for _, i := range []int{0, 499, 999} {
		path := c.node(fmt.Sprint(long, i), "")
		expect(all[i], zk.EventNodeCreated, path)
	}
}
