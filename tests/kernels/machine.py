"""Print what there is to check kernels on, as JSON. Needs torch alone."""

from __future__ import annotations

import json
import os
import platform

import torch


def machine() -> dict[str, object]:
    """The machine, and its first GPU if torch finds one."""
    found: dict[str, object] = {
        "python": platform.python_version(),
        "system": platform.platform(),
        "num_cpus": os.cpu_count(),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "gpu": None,
    }
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        found["gpu"] = properties.name
        found["capability"] = [properties.major, properties.minor]
        found["num_processors"] = properties.multi_processor_count
        found["memory_gib"] = round(properties.total_memory / (1 << 30), 1)
    return found


if __name__ == "__main__":
    print(json.dumps(machine()))
