#!/usr/bin/env python3
"""Inserts rows into an SQLite database, one transaction each, and promises each row once its transaction is committed.

Environment: JOURNAL and SYNCHRONOUS are SQLite's pragmas of these names, ROWS the number of rows.
"""
import os
import sqlite3

database = sqlite3.connect("rows.db", isolation_level=None)
database.execute(f"pragma journal_mode = {os.environ.get('JOURNAL', 'delete')}")
database.execute(f"pragma synchronous = {os.environ.get('SYNCHRONOUS', 'full')}")
database.execute("create table rows (id integer primary key, filling text)")
with open(os.environ["SEEKLAB_ACK"], "w") as promises:
    for row in range(int(os.environ.get("ROWS", "100"))):
        database.execute("insert into rows values (?, ?)", (row, "x" * 500))
        print(row, file=promises, flush=True)
