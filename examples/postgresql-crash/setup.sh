#!/bin/sh
# Makes a database with data checksums: a table of accounts, and one of the transactions that were committed.
set -eu
. "$(dirname "$0")/common.sh"
"$bin/initdb" --pgdata=data --data-checksums --auth=trust --username=postgres --locale=C >/dev/null
start
psql --quiet --no-psqlrc <<'SQL'
create table committed (number integer primary key);
create table accounts (id integer primary key, changes integer, filling text) with (fillfactor = 50);
insert into accounts select id, 0, repeat('x', 100) from generate_series(1, 2000) as id;
SQL
stop
