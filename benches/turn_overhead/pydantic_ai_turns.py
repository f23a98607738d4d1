"""The load of `turn_cost` on pydantic-ai: RUNS_AT_ONCE RUNS TOOL_TURNS ADDRESS; prints one JSON line."""

import asyncio
import json
import os
import resource
import sys
import time

at_once, runs, turns = (int(word) for word in sys.argv[1:4])
address = sys.argv[4]
os.environ.update(OPENAI_API_KEY="x", OPENAI_BASE_URL=address + "/v1")

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.usage import UsageLimits

agent = Agent(OpenAIChatModel(f"fake-{turns}"))


@agent.tool_plain
def add(a: int, b: int) -> str:
    """Add two numbers"""
    return str(a + b)


def cpu_s() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


async def run_all(count: int) -> None:
    gate = asyncio.Semaphore(at_once)

    async def one() -> None:
        async with gate:
            said = await agent.run("Add numbers until done.", usage_limits=UsageLimits(request_limit=100000))
            assert said.output == "42", said

    await asyncio.gather(*(one() for _ in range(count)))


async def main() -> None:
    await run_all(2)
    begun, before = time.perf_counter(), cpu_s()
    await run_all(runs)
    wall, cpu = time.perf_counter() - begun, cpu_s() - before
    calls = runs * (turns + 1)
    print(json.dumps({"fw": "pydantic-ai", "conc": at_once, "runs": runs, "turns": turns, "trace": "off",
                      "cpu_ms_per_call": 1e3 * cpu / calls, "ms_per_call": 1e3 * wall / calls}))


asyncio.run(main())
