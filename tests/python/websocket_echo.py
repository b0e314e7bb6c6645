"""A server of WebSocket at a free port that sends back what it gets; prints the port, then each
request's path when it opens and when it closes."""

import asyncio

import websockets


async def echo(socket):
    print("open", socket.path, flush=True)
    try:
        async for message in socket:
            await socket.send(message)
    except websockets.ConnectionClosed:
        pass  # A client that does not say goodbye.
    print("close", socket.path, flush=True)


async def main():
    async with websockets.serve(echo, "127.0.0.1", 0, max_size=None) as server:
        print(server.sockets[0].getsockname()[1], flush=True)
        await asyncio.Future()


asyncio.run(main())
