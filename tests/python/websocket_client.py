"""A client of WebSocket through the daemon: websocket_client.py URL MODE.

MODE `talk` sends and checks messages of many sizes; `hold` says "open" and stays until its
standard input ends. Prints what happened, one line each.
"""

import asyncio
import sys

import websockets


async def talk(url):
    async with websockets.connect(url, max_size=None) as socket:
        for size in (0, 1, 125, 126, 65535, 65536, 1 << 20):
            for message in ("x" * size, bytes(size)):
                await socket.send(message)
                answer = await socket.recv()
                assert answer == message, size
        await (await socket.ping())
        # Both directions at once: nothing waits for the other side.
        sent = [str(number) * 1000 for number in range(200)]
        sender = asyncio.ensure_future(asyncio.gather(*map(socket.send, sent)))
        received = [await socket.recv() for _ in sent]
        await sender
        assert sorted(received) == sorted(sent)
    print("closed", socket.close_code, flush=True)


async def hold(url):
    async with websockets.connect(url) as socket:
        await socket.send("hello")
        print("open", await socket.recv(), flush=True)
        await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    print("closed", socket.close_code, flush=True)


asyncio.run({"talk": talk, "hold": hold}[sys.argv[2]](sys.argv[1]))
