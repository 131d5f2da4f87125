"""The same for asyncio."""

from __future__ import annotations

import asyncio
import unittest
from collections.abc import Coroutine
from typing import Any

import padme
from padme import aio

from .world import Proxy, World, eventually, workers


class Embedded(World):
    def run_async(self, main: Coroutine[Any, Any, None]) -> None:
        asyncio.run(asyncio.wait_for(main, 60))

    def test_a_lock_is_held_until_the_end_of_its_with(self) -> None:
        async def main() -> None:
            async with aio.connect(self.url, patience=60) as a, aio.connect(self.url, patience=60) as b:
                async with a.lock("crane", priority=5) as hold:
                    hold.check()
                    with self.assertRaises(padme.Busy):
                        await b.lock("crane", wait=False).acquire()
                    with self.assertRaises(padme.TimedOut):
                        await b.lock("crane", timeout=0.3).acquire()
                self.assertFalse(hold.valid)
                again = await b.lock("crane", wait=False).acquire()
                self.assertGreater(again.fence, hold.fence)
                await again.release()

        self.run_async(main())

    def test_the_one_liner(self) -> None:
        async def main() -> None:
            async with aio.lock("crane", self.url, patience=60) as hold:
                hold.check()
            before = workers()
            client = aio.connect(self.url)
            await asyncio.gather(*(client._open() for _ in range(3)))  # tasks that share it
            async with client.lock("crane", wait=False):
                self.assertTrue((await client.show("crane")).open)
            await client.close()
            self.assertEqual(workers(), before)

        self.run_async(main())

    def test_the_loop_goes_on(self) -> None:
        """Also while it connects, waits and gives back."""

        async def main() -> None:
            ticks = 0

            async def tick() -> None:
                nonlocal ticks
                while True:
                    await asyncio.sleep(0.01)
                    ticks += 1

            holder = self.client().lock("crane").acquire()
            ticking = asyncio.create_task(tick())
            with self.assertRaises(padme.TimedOut):
                await aio.lock("crane", self.url, timeout=2).acquire()
            ticking.cancel()
            holder.release()
            self.assertGreater(ticks, 10)  # also on a machine that is busy

        self.run_async(main())

    def test_a_canceled_task_takes_its_request_back(self) -> None:
        async def main() -> None:
            async with aio.connect(self.url, patience=60) as a, aio.connect(self.url, patience=60) as b:
                async with a.lock("crane"):
                    request = b.lock("crane")
                    task = asyncio.create_task(request.acquire())
                    while not request.position:
                        await asyncio.sleep(0.01)
                    task.cancel()
                    with self.assertRaises(asyncio.CancelledError):
                        await task
                async with a.lock("crane", wait=False):
                    pass

        self.run_async(main())

    def test_a_lost_hold(self) -> None:
        proxy = Proxy(self, self.site.port)

        async def main() -> None:
            async with aio.connect(proxy.url, patience=60) as a:
                loop, told = asyncio.get_running_loop(), asyncio.Event()

                async def on_lost(hold: aio.Hold) -> None:
                    self.assertIs(asyncio.get_running_loop(), loop)
                    told.set()

                with self.assertRaises(padme.Lost):
                    async with a.lock("crane", on_lost=on_lost) as hold:
                        proxy.cut()
                        await told.wait()
                        self.assertFalse(hold.valid)

        self.run_async(main())
        client = self.client()
        eventually("it can be had again", lambda: self.is_free(client, "crane"))

    def test_no_broker(self) -> None:
        async def main() -> None:
            with self.assertRaises(padme.NoServer):
                await aio.connect("mqtt://127.0.0.1:1")
            with self.assertRaisesRegex(RuntimeError, "async with"):
                await aio.connect(self.url).lock("crane").acquire()

        self.run_async(main())


if __name__ == "__main__":
    unittest.main()
