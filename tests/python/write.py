"""Changes the table T of the database `db` with Open vSwitch's Python IDL.

Usage: write.py REMOTE SCHEMA. Inserts a row under a lock, changes it, verifies what it read, and
prints the status of each transaction.
"""

import sys

import ovs.db.idl
import ovs.poller


def until(idl, condition):
    while not condition():
        sequence = idl.change_seqno
        idl.run()
        if idl.change_seqno == sequence and not condition():
            poller = ovs.poller.Poller()
            idl.wait(poller)
            poller.block()


def main():
    remote, schema = sys.argv[1:]
    helper = ovs.db.idl.SchemaHelper(location=schema)
    helper.register_all()
    idl = ovs.db.idl.Idl(remote, helper)
    idl.set_lock("writer")
    until(idl, lambda: idl.state == idl.IDL_S_MONITORING and idl.has_lock)

    txn = ovs.db.idl.Transaction(idl)
    row = txn.insert(idl.tables["T"])
    row.k = 1
    row.s = "from python"
    txn.add_comment("a row from python")
    print("insert", txn.commit_block(), flush=True)

    row = idl.tables["T"].rows[txn.get_insert_uuid(row.uuid)]
    txn = ovs.db.idl.Transaction(idl)
    row.verify("k")
    row.k = row.k + 1
    print("verified", txn.commit_block(), flush=True)

    txn = ovs.db.idl.Transaction(idl)
    row.s = "counted"
    row.increment("k")
    print("increment", txn.commit_block(), flush=True)
    print("k", row.k, flush=True)


main()
