import gc
import os
import pathlib
import shutil
import subprocess
import tempfile

import pytest

import egeria
from egeria.fsspec import EgeriaFileSystem


@pytest.fixture
def program():
    """The program that makes and mounts volumes."""
    program = os.environ.get("EGERIA") or shutil.which("egeria")
    if not program:
        pytest.exit("no egeria to make volumes with; set EGERIA to the path of the program", returncode=2)
    return program


@pytest.fixture
def pool(program):
    """The path of a pool of a new volume on two nodes."""
    with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="egeria-python-") as directory:
        pools = [pathlib.Path(directory) / f"pool-{node}" for node in (0, 1)]
        arguments = [word for node, pool in enumerate(pools) for word in ("--pool", f"{node}:{pool}:64M")]
        subprocess.run([program, "mkfs", *arguments], check=True, stdout=subprocess.DEVNULL)
        yield str(pools[0])
        # What is not used any more is detached, which is part of what is tested.
        for filesystem in EgeriaFileSystem._cache.values():
            filesystem.close()
        EgeriaFileSystem.clear_instance_cache()
        gc.collect()
        subprocess.run([program, "check", str(pools[0])], check=True, stdout=subprocess.DEVNULL)


@pytest.fixture
def volume(pool):
    with egeria.Volume(pool) as volume:
        yield volume
    with pytest.raises(ValueError):
        volume.list()
