// Command suite runs cases for go-zookeeper on one server: suite server proxy control [part of a case name].
package main

import (
	"fmt"
	"os"
)

func main() {
	if len(os.Args) < 4 {
		fmt.Fprintln(os.Stderr, "usage: suite server proxy control [part of a case name]")
		os.Exit(2)
	}
	suite := &Suite{fixture: Fixture{server: os.Args[1], proxy: os.Args[2], control: os.Args[3]}}
	if 4 < len(os.Args) {
		suite.filter = os.Args[4]
	}
	nodeCases(suite)
	watchCases(suite)
	sessionCases(suite)
	os.Exit(suite.finish())
}
