"""Medians, ranges, and ratios to loopdeck, as a table; reads the JSON lines of `run`."""

import json
import statistics
import sys

rows = {}
for line in open(sys.argv[1]):
    one = json.loads(line)
    rows.setdefault((one["conc"], one["fw"]), []).append(one)
print("| runs at once | loop | CPU ms a call | against loopdeck | wall ms a call | against loopdeck |")
print("|---|---|---|---|---|---|")
for (conc, name), ones in sorted(rows.items(), key=lambda row: (row[0][0], row[0][1] != "loopdeck", row[0][1])):
    cells = []
    for column in ("cpu_ms_per_call", "ms_per_call"):
        values = [one[column] for one in ones]
        # Pairs of one round were run one after the other: their ratio is steadier than their figures.
        ours = [one[column] for one in rows[(conc, "loopdeck")]]
        ratio = statistics.median(theirs / mine for theirs, mine in zip(values, ours))
        cells.append(f"{statistics.median(values):.3f} ({min(values):.3f}-{max(values):.3f})")
        cells.append("1" if name == "loopdeck" else f"{ratio:.2f}")
    print(f"| {conc} | {name} | " + " | ".join(cells) + " |")
