"""A server of TLS at a free port that passes on what it gets to a plain one:
tls_relay.py CERTIFICATE KEY ADDRESS [--listen unix:PATH] [--clients AUTHORITY] [--abrupt]
[--ends].

With --clients whoever connects needs a certificate of that authority; with --abrupt connections are
ended without the goodbye of TLS. Prints where it listens, then one line for each connection whose
handshake went well, `tls NAME ALPN new|resumed CLIENT`, and with --ends another one, `end`, when it has
said its goodbye there.
"""

import argparse
import asyncio
import ssl

options = argparse.ArgumentParser()
options.add_argument("certificate")
options.add_argument("key")
options.add_argument("address")
options.add_argument("--listen")
options.add_argument("--clients")
options.add_argument("--abrupt", action="store_true")
options.add_argument("--ends", action="store_true")
options = options.parse_args()

context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
context.load_cert_chain(options.certificate, options.key)
context.set_alpn_protocols(["h2", "http/1.1"])
if options.clients:
    context.load_verify_locations(options.clients)
    context.verify_mode = ssl.CERT_REQUIRED
names = {}


def asked(tls, name, _):
    names[id(tls)] = name


context.sni_callback = asked


def told(tls):
    name = names.pop(id(tls), None)
    state = "resumed" if tls.session_reused else "new"
    subject = dict(pair[0] for pair in (tls.getpeercert() or {}).get("subject", ()))
    client = subject.get("commonName", "-")
    print("tls", name or "-", tls.selected_alpn_protocol() or "-", state, client, flush=True)


async def copy(source, target):
    try:
        while data := await source.read(1 << 16):
            target.write(data)
            await target.drain()
    except (OSError, ssl.SSLError):
        pass
    if options.abrupt and target.get_extra_info("ssl_object"):
        # The socket below is closed, and TLS never hears of it.
        target.transport._ssl_protocol._transport.close()
        return
    is_end = options.ends and target.get_extra_info("ssl_object") and not target.is_closing()
    target.close()
    if is_end:
        print("end", flush=True)


async def serve(reader, writer):
    told(writer.get_extra_info("ssl_object"))
    if options.address.startswith("unix:"):
        opened = asyncio.open_unix_connection(options.address.removeprefix("unix:"))
    else:
        opened = asyncio.open_connection(*options.address.rsplit(":", 1))
    try:
        from_server, to_server = await opened
    except OSError:
        writer.close()
        return
    await asyncio.gather(copy(reader, to_server), copy(from_server, writer))


async def main():
    if options.listen:
        path = options.listen.removeprefix("unix:")
        server = await asyncio.start_unix_server(serve, path, ssl=context)
        print(options.listen, flush=True)
    else:
        server = await asyncio.start_server(serve, "127.0.0.1", 0, ssl=context)
        host, port = server.sockets[0].getsockname()
        print(f"{host}:{port}", flush=True)
    await server.serve_forever()


asyncio.run(main())
