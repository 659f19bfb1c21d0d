package main

import (
	"time"

	"github.com/go-zookeeper/zk"
)

func sessionCases(s *Suite) {
	s.test("idle session lives by pings", idle)
	s.test("expiry", expiry)
	s.test("reconnect authenticates again", reconnectAuthenticates)
	s.test("server restart", serverRestart)
}

func (c *Case) ephemeral(conn *zk.Conn) string {
	path, err := conn.Create(c.path("e"), nil, zk.FlagEphemeral, open)
	check(err)
	return path
}

func idle(c *Case) {
	conn, _ := c.connect(c.proxy, time.Second)
	path := c.ephemeral(conn)
	time.Sleep(2500 * time.Millisecond)
	exists, _, err := c.zk.Exists(path)
	check(err)
	isTrue(exists, "pings keep the session alive")
}

func expiry(c *Case) {
	conn, events := c.connect(c.proxy, shortTimeout)
	path := c.ephemeral(conn)
	deleted := c.existsW(c.zk, path)
	session := conn.SessionID()
	c.command("block")
	expect(deleted, zk.EventNodeDeleted, path)
	c.command("open")
	awaitState(events, zk.StateExpired)
	awaitState(events, zk.StateHasSession)
	isTrue(conn.SessionID() != session, "a new session")
}

func reconnectAuthenticates(c *Case) {
	conn, events := c.connect(c.proxy, sessionTimeout)
	check(conn.AddAuth("digest", []byte("bob:pw")))
	path, err := conn.Create(c.path("a"), nil, 0, zk.AuthACL(zk.PermAll))
	check(err)
	c.command("drop")
	awaitState(events, zk.StateDisconnected)
	awaitState(events, zk.StateHasSession)
	_, _, err = conn.Get(path)
	check(err)
}

func serverRestart(c *Case) {
	conn, events := c.connect(c.proxy, sessionTimeout)
	path, session := c.ephemeral(conn), conn.SessionID()
	data := c.node("a", "before")
	changed := c.getW(conn, data)
	c.command("restart")
	awaitState(events, zk.StateDisconnected)
	awaitState(events, zk.StateHasSession)
	equal(session, conn.SessionID())
	_, stat, err := conn.Exists(path)
	check(err)
	equal(session, stat.EphemeralOwner)
	_, err = conn.Set(data, []byte("after"), 0)
	check(err)
	expect(changed, zk.EventNodeDataChanged, data)
	eventually("the other client is connected again", func() bool {
		_, _, err := c.zk.Exists(c.root)
		return err == nil
	})
}
