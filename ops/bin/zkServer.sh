#!/bin/sh
# One of Apache ZooKeeper's programs, selected by the name of this file: the others are links to it. Sources zkEnv.sh,
# and executes the oxkeeper binary as this program.
#
# A link from the name to the binary does the same without a shell; it understands only assignments in
# zookeeper-env.sh and java.env.

ZOOBINDIR=$(cd "$(dirname "$0")" && pwd)
if [ -e "$ZOOBINDIR/../libexec/zkEnv.sh" ]; then
  . "$ZOOBINDIR/../libexec/zkEnv.sh"
else
  . "$ZOOBINDIR/zkEnv.sh"
fi
exec "$OXKEEPER" "$(basename "$0")" "$@"
