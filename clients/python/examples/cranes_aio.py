#!/usr/bin/env python3
"""Three tasks of one event loop share a crane; the last one is the most important."""

import asyncio

import padme


async def task(client: padme.aio.Client, priority: int) -> None:
    async with client.lock("crane", priority=priority) as hold:
        print(f"priority {priority} in with fence {hold.fence}")
        for _ in range(3):
            hold.check()  # right before each effect
            await asyncio.sleep(0.1)


async def main() -> None:
    async with padme.aio.connect() as client:
        await asyncio.gather(*(task(client, priority) for priority in (300, 200, 100)))


asyncio.run(main())
