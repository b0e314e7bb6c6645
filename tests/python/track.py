"""Follows the table T of the database `db` with Open vSwitch's Python IDL.

Usage: track.py REMOTE SCHEMA. Prints `ready` once the contents are known, then one line per
change: the event and the row's columns, sorted. Ends when the row with s = "end" appears.
"""

import sys

import ovs.db.idl
import ovs.poller


class Tracker(ovs.db.idl.Idl):
    def notify(self, event, row, updates=None):
        # The IDL also tells of the rows of _Server, which it follows for itself.
        if row._table.name != "T":
            return
        values = " ".join(
            "%s=%s" % (name, getattr(row, name)) for name in ("k", "s", "kids")
        )
        print("%s %s" % (event, values), flush=True)


def main():
    remote, schema = sys.argv[1:]
    helper = ovs.db.idl.SchemaHelper(location=schema)
    helper.register_table("T")
    idl = Tracker(remote, helper)
    told = False
    while True:
        idl.run()
        if not told and idl.has_ever_connected():
            print("ready %d" % len(idl.tables["T"].rows), flush=True)
            told = True
        if any(row.s == "end" for row in idl.tables["T"].rows.values()):
            return
        poller = ovs.poller.Poller()
        idl.wait(poller)
        poller.block()


main()
