"""A small server's work on a file system: mail, a database with commits, files copied, searched and deleted.

usage: office_server.py DIRECTORY      (on the file system to be exercised; seeded, about a minute)
"""
import os
import random
import sqlite3
import sys
import time

root = sys.argv[1]
dice = random.Random(42)


def drop_caches():
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w", encoding="ascii") as file:
        file.write("3")


def write(path, size, fsync):
    with open(path, "wb") as file:
        file.write(dice.randbytes(size))
        if fsync:
            file.flush()
            os.fsync(file.fileno())


def read(path):
    with open(path, "rb") as file:
        return len(file.read())


folders = [os.path.join(root, f"user{index:02}") for index in range(24)]
for folder in folders:
    os.mkdir(folder)
files = []
for index in range(2500):
    path = os.path.join(dice.choice(folders), f"file{index}")
    write(path, int(dice.paretovariate(1.2) * 3000) % 2_000_000 + 500, fsync=False)
    files.append(path)
drop_caches()

database = sqlite3.connect(os.path.join(root, "ledger.db"))
database.execute("create table entry(id integer primary key, account integer, amount integer, note text)")
database.execute("create index entry_account on entry(account)")
database.executemany(
    "insert into entry(account, amount, note) values(?, ?, ?)",
    ((dice.randrange(20_000), dice.randrange(10_000), "x" * dice.randrange(40, 400)) for _ in range(120_000)),
)
database.commit()
drop_caches()

end = time.monotonic() + 45
mails = 0
while time.monotonic() < end:
    action = dice.random()
    if action < 0.35:
        mails += 1
        write(os.path.join(dice.choice(folders), f"mail{mails}"), dice.randrange(800, 40_000), fsync=True)
    elif action < 0.60:
        account = dice.randrange(20_000)
        with database:
            database.execute("update entry set amount = amount + 1 where account = ?", (account,))
            database.execute("insert into entry(account, amount, note) values(?, 1, 'fee')", (account,))
    elif action < 0.85:
        read(dice.choice(files))
        time.sleep(dice.expovariate(1 / 0.004))
    elif action < 0.95:
        account = dice.randrange(20_000)
        database.execute("select sum(amount) from entry where account = ?", (account,)).fetchone()
    else:
        time.sleep(dice.expovariate(1 / 0.03))
    if mails % 400 == 399:
        drop_caches()
        mails += 1
drop_caches()
for path in files[:1200]:
    read(path)
for path in files[1200:2000]:
    os.unlink(path)
database.close()
