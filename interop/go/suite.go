package main

import (
	"bufio"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/go-zookeeper/zk"
)

const (
	caseTimeout    = 30 * time.Second
	waitTimeout    = 10 * time.Second
	sessionTimeout = 10 * time.Second
	shortTimeout   = 2 * time.Second
)

// Fixture is the server under test, a proxy in front of it, and the control port that injects faults.
type Fixture struct {
	server, proxy, control string
}

var errExternalServer = errors.New("xtask did not start the server")

// command sends a control command and waits for its reply, which follows its effect.
func (f Fixture) command(command string) error {
	conn, err := net.Dial("tcp", f.control)
	if err != nil {
		return err
	}
	defer conn.Close()
	fmt.Fprintln(conn, command)
	reply, err := bufio.NewReader(conn).ReadString('\n')
	switch strings.TrimSpace(reply) {
	case "ok":
		return nil
	case "error: not our server":
		return errExternalServer
	}
	return fmt.Errorf("%s: %s %v", command, reply, err)
}

// Suite runs cases one after the other and prints one line per case.
type Suite struct {
	fixture                 Fixture
	filter                  string
	passed, failed, skipped int
}

// Case is a running case with a separate root node, and with clients that are closed at its end.
type Case struct {
	Fixture
	root string
	// Without the proxy, authenticated as super, to prepare and inspect nodes.
	zk    *zk.Conn
	conns []*zk.Conn
}

// skip ends a case that cannot run on this server.
type skip string

func (s *Suite) test(name string, body func(c *Case)) {
	if !strings.Contains(name, s.filter) {
		return
	}
	start := time.Now()
	done := make(chan any, 1)
	go func() {
		c := &Case{Fixture: s.fixture, root: "/go-" + strings.ReplaceAll(name, " ", "-")}
		defer func() {
			problem := recover()
			if _, skipped := problem.(skip); problem != nil && !skipped {
				os.Stderr.Write(debug.Stack())
			}
			c.close()
			done <- problem
		}()
		c.begin()
		body(c)
	}()
	var problem any
	select {
	case problem = <-done:
	case <-time.After(caseTimeout):
		problem = fmt.Sprintf("did not finish within %v", caseTimeout)
	}
	switch problem := problem.(type) {
	case nil:
		s.passed++
		fmt.Printf("ok   %s %d\n", name, time.Since(start).Milliseconds())
	case skip:
		s.skipped++
		fmt.Printf("skip %s %s\n", name, problem)
	default:
		s.failed++
		fmt.Printf("fail %s %s\n", name, strings.ReplaceAll(fmt.Sprint(problem), "\n", " "))
	}
}

// finish prints the summary line and returns the exit code.
func (s *Suite) finish() int {
	fmt.Printf("go: %d passed, %d failed, %d skipped\n", s.passed, s.failed, s.skipped)
	return min(s.failed, 1)
}

func (c *Case) begin() {
	c.zk, _ = c.connect(c.server, sessionTimeout)
	check(c.zk.AddAuth("digest", []byte("super:test")))
	c.deleteTree(c.root)
	c.node("", "")
}

func (c *Case) close() {
	c.Fixture.command("open")
	for _, conn := range c.conns {
		conn.Close()
	}
}

func (c *Case) path(rest string) string {
	if rest == "" {
		return c.root
	}
	return c.root + "/" + rest
}

// node creates a persistent, open node and returns its path.
func (c *Case) node(rest, data string) string {
	path, err := c.zk.Create(c.path(rest), []byte(data), 0, zk.WorldACL(zk.PermAll))
	check(err)
	return path
}

// connect opens a client and waits for its session. The channel receives its session events.
func (c *Case) connect(address string, timeout time.Duration) (*zk.Conn, <-chan zk.Event) {
	conn, events, err := zk.Connect([]string{address}, timeout, zk.WithLogInfo(false), zk.WithLogger(quiet{}), zk.WithDialer(dialer()))
	check(err)
	c.conns = append(c.conns, conn)
	awaitState(events, zk.StateHasSession)
	return conn, events
}

// dialer connects with TLS if the environment names the CA of the server.
func dialer() zk.Dialer {
	file := os.Getenv("INTEROP_TLS_CA")
	if file == "" {
		return net.DialTimeout
	}
	pem, err := os.ReadFile(file)
	check(err)
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		panic(file + " has no certificate")
	}
	return func(network, address string, timeout time.Duration) (net.Conn, error) {
		return tls.DialWithDialer(&net.Dialer{Timeout: timeout}, network, address, &tls.Config{RootCAs: roots})
	}
}

func (c *Case) deleteTree(path string) {
	children, _, err := c.zk.Children(path)
	if err == zk.ErrNoNode {
		return
	}
	check(err)
	for _, child := range children {
		c.deleteTree(path + "/" + child)
	}
	check(c.zk.Delete(path, -1))
}

// command sends a control command, or skips the case if it needs a server that xtask started.
func (c *Case) command(command string) {
	err := c.Fixture.command(command)
	if err == errExternalServer {
		panic(skip(err.Error()))
	}
	check(err)
}

type quiet struct{}

func (quiet) Printf(string, ...interface{}) {}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func fails(want, got error) {
	if got != want {
		panic(fmt.Sprintf("expected %v, got %v", want, got))
	}
}

func equal[T comparable](want, got T) {
	if got != want {
		panic(fmt.Sprintf("expected %v, got %v", want, got))
	}
}

func isTrue(condition bool, what string) {
	if !condition {
		panic("expected: " + what)
	}
}

func eventually(what string, condition func() bool) {
	for deadline := time.Now().Add(waitTimeout); !condition(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			panic("expected soon: " + what)
		}
	}
}

// expect checks the next event of a watch.
func expect(events <-chan zk.Event, kind zk.EventType, path string) {
	select {
	case event := <-events:
		equal(fmt.Sprint(kind, " ", path), fmt.Sprint(event.Type, " ", event.Path))
	case <-time.After(waitTimeout):
		panic(fmt.Sprintf("no event; expected %v %s", kind, path))
	}
}

// awaitState skips events until the session reaches the given state.
func awaitState(events <-chan zk.Event, state zk.State) {
	timeout := time.After(waitTimeout)
	for {
		select {
		case event := <-events:
			if event.Type == zk.EventSession && event.State == state {
				return
			}
		case <-timeout:
			panic(fmt.Sprintf("session state %v not reached", state))
		}
	}
}
