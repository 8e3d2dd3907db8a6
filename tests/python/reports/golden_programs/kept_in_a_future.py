"""A future keeps an exception; who awaits the future raises it again."""

import asyncio

import shop


async def first():
    future = asyncio.get_running_loop().create_future()
    try:
        shop.total(3, "XAU")
    except KeyError as error:
        future.set_exception(error)
    return await second(future)


async def second(future):
    return await future


asyncio.run(first())
