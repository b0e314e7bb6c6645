#!/usr/bin/env bash
# A first look: a database, a change, a refusal, a lock with its fencing number.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
paceline=${PACELINE_BIN:-$here/../target/release/paceline}
dir=$(mktemp -d)
server=
trap '[ -n "$server" ] && kill "$server" && wait "$server" || true; rm -rf "$dir"' EXIT

"$paceline" ovsdb create "$dir/fleet.db" "$here/fleet.ovsschema"
mkfifo "$dir/ready"
# Where other databases are served, only they are listed; --list-own lists the daemon's own too, for the last dump.
"$paceline" serve --log warn --data "$dir" --api none --database "$dir/fleet.db" --list-own >"$dir/ready" &
server=$!
read -r line <"$dir/ready"
echo "$line"
socket=unix:$dir/ovsdb.sock

echo "-- insert two machines"
ovsdb-client transact "$socket" '["Fleet",
  {"op": "insert", "table": "Machine", "row": {"name": "alpha", "cores": 8, "tags": ["set", ["db", "eu"]]}},
  {"op": "insert", "table": "Machine", "row": {"name": "beta", "cores": 4}}]'
ovsdb-client dump "$socket" Fleet Machine name cores tags

echo "-- a second alpha is refused, and nothing of its transaction happens"
ovsdb-client transact "$socket" '["Fleet",
  {"op": "insert", "table": "Machine", "row": {"name": "gamma", "cores": 2}},
  {"op": "insert", "table": "Machine", "row": {"name": "alpha", "cores": 2}}]'

echo "-- a lock, its owner and its fencing number"
mkfifo "$dir/locked"
ovsdb-client lock "$socket" Fleet:maintenance 2>/dev/null >"$dir/locked" &
client=$!
read -r answer <"$dir/locked"
echo "$answer"
ovsdb-client dump "$socket" Paceline Lock name owner fencing
kill "$client"
