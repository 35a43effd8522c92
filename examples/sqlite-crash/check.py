#!/usr/bin/env python3
"""Checks after a cut of the power: the database is sound, and every promised row is there.

Exit codes: 0 it is so, 1 a row is missing, 3 the database is not sound.
"""
import os
import sqlite3
import sys

with open(os.environ["SEEKLAB_ACKED"]) as promises:
    promised = {int(line) for line in promises}
if not os.path.exists("rows.db"):
    print(f"there is no database, {len(promised)} rows were promised")
    sys.exit(1 if promised else 0)
try:
    database = sqlite3.connect("rows.db")
    integrity = database.execute("pragma integrity_check").fetchone()[0]
    tables = database.execute("select name from sqlite_master").fetchall()
    rows = {row for (row,) in database.execute("select id from rows")} if tables else set()
except sqlite3.DatabaseError as error:
    print(f"the database is not sound: {error}")
    sys.exit(3)
if integrity != "ok":
    print(f"the database is not sound: {integrity}")
    sys.exit(3)
missing = sorted(promised - rows)
if missing:
    print(f"of {len(promised)} promised rows {len(missing)} are missing, the first is {missing[0]}")
    sys.exit(1)
