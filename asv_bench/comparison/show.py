"""The table and the chart."""

from __future__ import annotations

import math

COLOURS = {
    "lucid": "#c8102e",
    "lucid, cold": "#f0a0a8",
    "PyTorch": "#5b6770",
    "NumPy": "#9ecae1",
    "Bottleneck": "#74c476",
    "MLX": "#b8a9d9",
    "JAX": "#e6b85c",
}


def columns(rows):
    """Return the names of all libraries in the rows, in order."""
    found = {n for r in rows for n in r["seconds"]}
    return [n for n in COLOURS if n in found]


def _time(seconds):
    if seconds is None:
        return ""
    for unit, scale in (("ns", 1e9), ("µs", 1e6), ("ms", 1e3)):
        if seconds * scale < 1000 or unit == "ms":
            return f"{seconds * scale:.3g} {unit}" if seconds * scale < 1000 else f"{seconds:.3g} s"
    return None


def table(rows):
    """Yield the lines of a Markdown table: time, and in brackets the share of the limit."""
    names = columns(rows)
    cells = [["case", "limit", *names]]
    for r in rows:
        line = [r["case"], _time(r["limit"])]
        for n in names:
            text = _time(r["seconds"].get(n))
            if text and r["share"]:
                text += f" ({r['share'][n]:.0%})"
            line.append(text)
        cells.append(line)
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    for i, line in enumerate(cells):
        padded = [c.ljust(w) if j == 0 else c.rjust(w)
                  for j, (c, w) in enumerate(zip(line, widths, strict=True))]  # fmt: skip
        yield "| " + " | ".join(padded) + " |"
        if i == 0:
            marks = ["-" * w if j == 0 else "-" * (w - 1) + ":" for j, w in enumerate(widths)]
            yield "| " + " | ".join(marks) + " |"


def plot(rows, about, path):
    """Write a bar chart of the shares of the limit."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    rows = [r for r in rows if r["share"]]
    if not rows:
        raise SystemExit("--plot: no case among those measured has a limit")
    names = columns(rows)
    bars = sum(len(r["share"]) for r in rows)
    with plt.rc_context({"font.size": 9}):
        figure, axes = plt.subplots(figsize=(8.3, 1.1 + 0.115 * bars + 0.14 * len(rows)))
        place, ticks, low = 0.0, [], 1.0
        for r in rows:
            start = place
            for n in (n for n in names if n in r["share"]):
                share = 100 * r["share"][n]
                low = min(low, share)
                axes.barh(place, share, 1, color=COLOURS[n])
                if n == "lucid":
                    axes.annotate(
                        f"{share:.0f} %", (share, place), (-3, 0), textcoords="offset points",
                        va="center_baseline", ha="right", fontsize=8, weight="bold", color="white",
                    )  # fmt: skip
                place += 1
            ticks.append((start + place - 1) / 2)
            place += 1.2
        axes.set(
            xscale="log", xlim=(10 ** math.floor(math.log10(low)), 130), ylim=(place - 1.2, -1)
        )
        axes.set_yticks(ticks, [r["case"] for r in rows])
        axes.xaxis.set_major_formatter("{x:g} %")
        axes.axvline(100, color="black", linewidth=1)
        axes.set_xlabel("share of the limit that memory sets (log scale; longer is faster)")
        axes.tick_params(axis="y", length=0)
        axes.spines[["top", "right", "left"]].set_visible(False)
        axes.grid(axis="x", color="#dddddd", linewidth=0.6)
        axes.set_axisbelow(True)
        handles = [plt.Rectangle((0, 0), 1, 1, color=COLOURS[n]) for n in names]
        figure.legend(handles, names, loc="upper center", ncols=len(names), frameon=False)
        text = f"{about['processor']}, threads: {about['threads']}, {about['date']}"
        axes.set_title(text, fontsize=8, color="#555555", pad=4)
        figure.tight_layout(rect=(0, 0, 1, 1 - 0.28 / figure.get_figheight()))
        figure.savefig(path, dpi=200)
