# The environment of Apache ZooKeeper's programs, for the scripts of this directory and for scripts that source it.
#
# Takes `--config <dir>` from the arguments, sources zookeeper-env.sh and java.env of the configuration directory, and
# sets ZOOBINDIR, ZOOKEEPER_PREFIX, ZOOCFGDIR, ZOOCFG (a path), ZOO_LOG_DIR, SERVER_JVMFLAGS, CLIENT_JVMFLAGS and OXKEEPER,
# the path of the binary.

ZOOBINDIR="${ZOOBINDIR:-/usr/bin}"
ZOOKEEPER_PREFIX=$(cd "$ZOOBINDIR/.." && pwd)

if [ $# -gt 2 ] && [ "$1" = "--config" ]; then
  ZOOCFGDIR=$2
  shift 2
fi

if [ -z "$ZOOCFGDIR" ]; then
  for directory in "$ZOOKEEPER_PREFIX/conf" "$ZOOKEEPER_PREFIX/etc/zookeeper" \
    /etc/oxkeeper /etc/zookeeper/conf /etc/zookeeper; do
    if [ -d "$directory" ]; then
      ZOOCFGDIR=$directory
      break
    fi
  done
  ZOOCFGDIR="${ZOOCFGDIR:-$ZOOKEEPER_PREFIX/conf}"
fi
if [ -d "$ZOOCFGDIR" ]; then
  ZOOCFGDIR=$(cd "$ZOOCFGDIR" && pwd)
fi

if [ -f "$ZOOCFGDIR/zookeeper-env.sh" ]; then
  . "$ZOOCFGDIR/zookeeper-env.sh"
fi
ZOOCFG="$ZOOCFGDIR/${ZOOCFG:-zoo.cfg}"
if [ -f "$ZOOCFGDIR/java.env" ]; then
  . "$ZOOCFGDIR/java.env"
fi

ZOO_LOG_DIR="${ZOO_LOG_DIR:-$ZOOKEEPER_PREFIX/logs}"

if [ -x "$ZOOBINDIR/oxkeeper" ]; then
  OXKEEPER="$ZOOBINDIR/oxkeeper"
else
  OXKEEPER=$(command -v oxkeeper) || {
    echo "Error: the oxkeeper binary is neither in $ZOOBINDIR nor in PATH." >&2
    exit 1
  }
fi

# The binary does not read zookeeper-env.sh and java.env again.
OXKEEPER_ZKENV=1
export OXKEEPER_ZKENV ZOOCFGDIR ZOOCFG ZOO_LOG_DIR OXKEEPER SERVER_JVMFLAGS CLIENT_JVMFLAGS JVMFLAGS
export ZOO_LOG_FILE ZOOPIDFILE ZOO_DATADIR_AUTOCREATE_DISABLE ZOO_NOEXEC JMXPORT
