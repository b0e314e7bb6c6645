"""Drives the SQL door with public drivers. Arguments: the directory of the unix socket, its port, a user."""

import asyncio
import sys

import asyncpg
import psycopg
import sqlalchemy

HOST, PORT, USER = sys.argv[1], int(sys.argv[2]), sys.argv[3]
DSN = f"host={HOST} port={PORT} user={USER} dbname=app"


def with_psycopg():
    with psycopg.connect(DSN, autocommit=True) as one, psycopg.connect(DSN) as two:
        one.execute("create table people(id serial primary key, name text, born date, raw bytea)")
        with one.cursor(binary=True) as cursor:
            cursor.execute("insert into people(name, raw) values (%s, %s) returning id", ("Ann", b"\0\xff"))
            assert cursor.fetchone() == (1,)
            # Prepared after a few uses, and then on whichever server is free.
            for number in range(20):
                cursor.execute("select %s::int + 1", (number,), prepare=True)
                assert cursor.fetchone() == (number + 1,)
                two.execute("select name, raw from people where id = %s", (1,), prepare=True)
                assert two.execute("select name, raw from people where id = %s", (1,)).fetchone() == ("Ann", b"\0\xff")
                two.commit()
        with one.pipeline() as pipeline:
            results = [one.execute("select %s::int", (number,)) for number in range(50)]
            pipeline.sync()
            assert [result.fetchone()[0] for result in results] == list(range(50))
        with one.cursor() as cursor:
            with cursor.copy("copy people(name) from stdin") as copy:
                for number in range(5_000):
                    copy.write_row((f"name {number}" + "x" * 100,))
            with cursor.copy("copy people(name) to stdout") as copy:
                assert sum(1 for _ in copy.rows()) == 5_001
        with two.transaction(), two.cursor("server_side") as cursor:
            cursor.execute("select id from people order by id")
            assert len(cursor.fetchmany(10)) == 10
        try:
            with two.transaction():
                two.execute("insert into people(name) values ('lost')")
                two.execute("select 1/0")
        except psycopg.errors.DivisionByZero:
            pass
        assert two.execute("select count(*) from people where name = 'lost'").fetchone() == (0,)


async def with_asyncpg():
    pool = await asyncpg.create_pool(host=HOST, port=PORT, user=USER, database="app", min_size=4, max_size=8)

    async def work(number):
        async with pool.acquire() as one:
            for step in range(20):
                assert await one.fetchval("select $1::int + $2::int", number, step) == number + step
            async with one.transaction():
                await one.execute("insert into people(name) values ($1)", f"async {number}")
                return await one.fetchval("select count(*) from people where name = $1", f"async {number}")

    assert await asyncio.gather(*(work(number) for number in range(40))) == [1] * 40
    async with pool.acquire() as one:
        async with one.transaction():
            rows = [row["id"] async for row in one.cursor("select id from people order by id limit 100")]
        assert len(rows) == 100
        # A change of shape, which statements that are already prepared must survive.
        assert await one.fetchval("select count(*) from (select * from people) as p") > 0
        await one.execute("alter table people add column more int default 7")
        assert (await one.fetchrow("select * from people limit 1"))["more"] == 7
    await pool.close()


def with_sqlalchemy():
    engine = sqlalchemy.create_engine(f"postgresql+psycopg://{USER}@/app?host={HOST}&port={PORT}")
    meta = sqlalchemy.MetaData()
    notes = sqlalchemy.Table(
        "notes", meta, sqlalchemy.Column("id", sqlalchemy.Integer, primary_key=True), sqlalchemy.Column("text", sqlalchemy.Text)
    )
    meta.create_all(engine)
    with engine.begin() as one:
        one.execute(notes.insert(), [{"text": f"note {number}"} for number in range(100)])
    with engine.connect() as one:
        assert one.execute(sqlalchemy.select(sqlalchemy.func.count()).select_from(notes)).scalar() == 100
    columns = [column["name"] for column in sqlalchemy.inspect(engine).get_columns("notes")]
    assert columns == ["id", "text"], columns
    engine.dispose()


with_psycopg()
asyncio.run(with_asyncpg())
with_sqlalchemy()
print("all clients are served")
