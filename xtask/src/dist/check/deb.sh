#!/bin/bash
# Run by systemd as root in a bare Debian with the package in /package.deb. The network is the container's own.
set -eux

# debootstrap does not write this file.
echo '127.0.0.1 localhost' > /etc/hosts

fails() { if "$@"; then return 1; fi; }

# Installed: neither started nor enabled, and the administrator is told.
dpkg --install /package.deb | grep 'oxkeeper is not started'
fails systemctl --quiet is-enabled oxkeeper
fails systemctl --quiet is-active oxkeeper
[ "$(stat --format '%U:%G %a' /var/lib/oxkeeper)" = 'oxkeeper:oxkeeper 750' ]
(cd / && md5sum --check --quiet /var/lib/dpkg/info/oxkeeper.md5sums)
oxkeeper check-config -q /etc/oxkeeper/zoo.cfg
source /usr/share/bash-completion/completions/oxkeeper
complete -p oxkeeper
zcat /usr/share/man/man1/oxkeeper-server.1.gz | grep SERVER_JVMFLAGS
systemd-analyze verify --man=no oxkeeper.service

# Started: `systemctl start` returns when the server is ready.
mkdir -p /etc/systemd/system/oxkeeper.service.d
printf '[Service]\nWatchdogSec=5\n' > /etc/systemd/system/oxkeeper.service.d/check.conf
systemctl daemon-reload
systemctl enable --now oxkeeper
oxkeeper cli create /dist checked
[ "$(oxkeeper cli get /dist)" = checked ]
[ "$(ps --no-headers -o user:20 -C oxkeeper)" = oxkeeper ]
until [ "$(systemctl show --value --property StatusText oxkeeper)" = standalone ]; do sleep 0.1; done
systemd-analyze security --threshold=20 oxkeeper
/usr/share/oxkeeper/bin/zkCli.sh ls / | grep dist
/usr/share/oxkeeper/bin/zkServer.sh status 2>&1 | grep 'Mode: standalone'
systemctl reload oxkeeper
until journalctl --unit oxkeeper | grep SIGHUP; do sleep 0.1; done
systemctl is-active oxkeeper

# A server that hangs is restarted by the watchdog, with its data.
kill -STOP "$(systemctl show --value --property MainPID oxkeeper)"
until [ "$(systemctl show --value --property NRestarts oxkeeper)" = 1 ]; do sleep 0.1; done
until [ "$(oxkeeper cli get /dist)" = checked ]; do sleep 0.1; done
journalctl --unit oxkeeper | grep 'Watchdog timeout'

# Upgraded: the server goes on, and the configuration stays.
sed -i 's/^tickTime=.*/tickTime=1500/' /etc/oxkeeper/zoo.cfg
before="$(systemctl show --value --property MainPID oxkeeper)"
dpkg --install /package.deb | grep 'still running the old version'
[ "$(systemctl show --value --property MainPID oxkeeper)" = "$before" ]
grep '^tickTime=1500$' /etc/oxkeeper/zoo.cfg
systemctl restart oxkeeper
[ "$(oxkeeper cli get /dist)" = checked ]

# Removed: stopped cleanly. Purged: only data stays.
dpkg --remove oxkeeper
journalctl --unit oxkeeper | tail -5 | grep 'Exiting normally'
fails systemctl --quiet is-active oxkeeper
[ ! -e /usr/bin/oxkeeper ]
[ -e /etc/oxkeeper/zoo.cfg ]
dpkg --purge oxkeeper | grep 'has data and is kept'
for path in /etc/oxkeeper /etc/default/oxkeeper /var/log/oxkeeper /usr/share/oxkeeper; do [ ! -e "$path" ]; done
ls /var/lib/oxkeeper/version-2/log.*
