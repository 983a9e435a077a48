#!/bin/sh
# Installs or removes trafficd from this directory, on systems without dpkg.
#
# usage: sudo ./install.sh [--remove]
set -eu
cd "$(dirname "$0")"
umask 022

files() { (cd root && find . -type f | sed 's/^\.//'); }

if [ "${1:-}" = --remove ]; then
	if [ -d /run/systemd/system ]; then systemctl disable --now trafficd-webhook.service trafficd.service || true; fi
	if [ -d /sys/fs/bpf/trafficd ]; then /usr/sbin/trafficd unload || true; fi
	files | while read -r file; do rm -f "$file"; done
	rm -f /etc/default/trafficd-webhook
	rm -rf /run/trafficd /var/lib/trafficd /var/lib/private/trafficd-webhook /var/lib/trafficd-webhook /usr/share/doc/trafficd
	if [ -d /run/systemd/system ]; then systemctl daemon-reload; fi
	if getent passwd trafficd >/dev/null; then userdel trafficd || true; fi
	if getent group trafficd >/dev/null; then groupdel trafficd || true; fi
	echo "trafficd is removed"
	exit
fi
[ $# -eq 0 ] || { sed -n '2,5s/^# \{0,1\}//p' "$0" >&2 && exit 64; }

files | while read -r file; do
	# What an administrator has changed stays.
	case $file in /etc/*) [ ! -e "$file" ] || continue ;; esac
	mkdir -p "$(dirname "$file")"
	cp "root$file" "$file.new"
	mv "$file.new" "$file"
done
if command -v systemd-sysusers >/dev/null; then
	systemd-sysusers trafficd.conf
elif ! getent passwd trafficd >/dev/null; then
	useradd --system --user-group --no-create-home --home-dir / --shell /usr/sbin/nologin trafficd
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl enable --now trafficd.service
	systemctl restart trafficd.service
	systemctl try-restart trafficd-webhook.service
	echo "trafficd runs; try: sudo trafficctl top"
else
	echo "trafficd is installed; start it with: sudo trafficd run"
fi
