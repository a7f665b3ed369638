"""Checked by mypy alone: what a program with types does with the package."""

import egeria

volume = egeria.Volume("/pool", read_only=True)
with volume.open("/file", "rb") as file:
    count: int = file.readinto_at(bytearray(10), 0)
    data: bytes = file.read(10)
nodes: list[int] = [part.node for part in egeria.where("/file", pool="/pool")]
size: int = volume.stat("/file").size
