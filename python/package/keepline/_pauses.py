"""Pauses between attempts."""

from __future__ import annotations

import asyncio
import time

async_pause = asyncio.sleep
pause = time.sleep
