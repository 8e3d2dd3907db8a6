"""One task awaits another, and that one a third."""

import asyncio

import shop


async def quote(currency):
    await asyncio.sleep(0)
    return shop.total(3, currency)


async def order():
    return await asyncio.create_task(quote("XAU"), name="quote")


async def main():
    await asyncio.create_task(order(), name="order")


asyncio.run(main())
