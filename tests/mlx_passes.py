"""Count the passes over memory of a graph that MLX exports."""

import re
from collections import defaultdict

import mlx.core as mx

VIEWS = {"Broadcast", "ExpandDims", "Reshape", "Squeeze", "Transpose", "Unflatten"}
SMALLER = {"Sum", "Max", "Slice"}  # the results of these are small here


def passes(path, large, results):
    """Return how many large arrays are read and how many are written to compute `results`.

    `large` are the arguments of full size. Elementwise steps, fused or not, give arrays of full
    size from one of full size; views cost nothing.
    """
    names = {f"large{i}": a for i, a in enumerate(large)}
    mx.export_to_dot(str(path), *results, **names)
    text = path.read_text()
    label = dict(re.findall(r'(\d+) \[label ="(\w+)"', text))
    reads, writes = defaultdict(list), defaultdict(list)
    for a, b in re.findall(r'^"?(\w+)"? -> "?(\w+)"?$', text, re.MULTILINE):
        if b in label:
            reads[b].append(a)
        else:
            writes[a].append(b)
    full, pending, n = set(names), list(label), [0, 0]
    while True:
        ready = [p for p in pending if any(a in full for a in reads[p])]
        if not ready:
            return tuple(n)
        for p in ready:
            pending.remove(p)
            if label[p] not in SMALLER:
                full.update(writes[p])
        # Inputs of a step may become known to be large after it was seen: count at the end.
        if not any(a in full for p in pending for a in reads[p]):
            for p in label:
                if label[p] not in VIEWS | {"Slice"}:
                    n[0] += sum(a in full for a in set(reads[p]))
                    n[1] += sum(a in full for a in writes[p])
            return tuple(n)
