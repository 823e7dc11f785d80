# SPDX-License-Identifier: MIT
"""What limits the rows of the README's times that miss their target, as Nsight Compute counts it.

limits_table.py README.md SM90_BENCH runs ncu on every row of the README's second table (its kernel, in the
problem's line of sm90-bench) and writes the figures into it; with FOLDER behind it keeps ncu's pages there.
limits_table.py README.md --from FOLDER takes pages that were kept.
limits_table.py README.md --check changes nothing and fails where a row that misses its target has no line
there, or a line says another figure for how much it misses by.  The last column is the README's own.
"""
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

TIMES = "| problem | variant | floor us |"
LIMITS = "| problem | variant | kernel |"
SECTIONS = ("SpeedOfLight", "ComputeWorkloadAnalysis", "InstructionStats", "SchedulerStats",
            "WarpStateStats")
PIPES = "Pipe Utilization (% of peak instructions executed over active cycles)"
CHAINED, TARGET = 4, 6  # columns of the times


def cells_of(line):
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def table(lines, head):
    """The indices of a table's rows."""
    at = next(i for i, line in enumerate(lines) if line.startswith(head)) + 2
    end = at
    while lines[end].startswith("|"):
        end += 1
    return range(at, end)


def goals(lines):
    """{(problem, target in us): {variant: chained us}}"""
    best, rows = {}, []
    for i in table(lines, TIMES):
        cells = cells_of(lines[i])
        if cells[CHAINED] != "-":
            best[cells[0]] = min(best.get(cells[0], 1e9), float(cells[CHAINED]))
            if cells[TARGET] != "-":
                rows.append(cells)
    found = {}
    for cells in rows:
        target = float(re.match(r"[0-9.]+", cells[TARGET]).group())
        if cells[TARGET].endswith("M=1"):
            target *= best[re.sub(r"^m=[0-9]+", "m=1", cells[0])]
        found.setdefault((cells[0], target), {})[cells[1]] = float(cells[CHAINED])
    return found


def missed(found):
    """{(problem, variant): (chained us, target us)} where no variant that has the target meets it."""
    return {(problem, variant): (chained, target)
            for (problem, target), variants in found.items() if min(variants.values()) > target
            for variant, chained in variants.items()}


def page_of(folder, problem, variant):
    return os.path.join(folder, re.sub(r"[^a-z0-9_.]+", "_", f"{variant}.{problem}.txt"))


def profile(problem, variant, kernel, bench, folder):
    command = ["ncu", "--clock-control", "none"]
    for section in SECTIONS:
        command += ["--section", section]
    command += ["--print-details", "all", "-k", f"regex:^{kernel}$", "-c", "1", "--kill", "yes",
                bench, problem]
    with open(page_of(folder, problem, variant), "w", encoding="utf-8") as file:
        subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, check=False)


def figure(text, name):
    found = re.search(r"^ +" + re.escape(name) + r" +(?:[a-zA-Z%/]+ +)?([0-9.,]+) *$", text, re.M)
    if found is None:
        raise SystemExit(f"no {name} in:\n{text[-2000:]}")
    return float(found.group(1).replace(",", ""))


def counted(page):
    with open(page, encoding="utf-8") as file:
        text = file.read()
    if "Table Name : " + PIPES not in text:
        raise SystemExit(f"{page}: no such kernel was profiled")
    stalls = {name: float(value) for name, value in
              re.findall(r"^ +Stall ([A-Za-z ]+?) +inst +([0-9.]+)", text, re.M)}
    most = sorted(stalls.items(), key=lambda stall: -stall[1])[:4]
    pipes = text[text.index("Table Name : " + PIPES):]
    pipes = re.findall(r"^ +([A-Za-z ()]+?) +% +([0-9.]+)$", pipes[:pipes.index("Section:")], re.M)
    pipe, busy = max(pipes, key=lambda row: float(row[1]))
    scale = {"us": 1, "ms": 1000}[re.search(r"^ +Duration +([a-z]+)", text, re.M).group(1)]
    return [f"{figure(text, 'Duration') * scale:.1f}",
            f"{figure(text, 'Avg. Executed Instructions Per Scheduler'):,.0f}",
            f"{figure(text, 'One or More Eligible'):.0f}",
            f"{pipe} {float(busy):.0f}",
            f"{figure(text, 'Active Warps Per Scheduler'):.1f}, "
            f"{figure(text, 'Eligible Warps Per Scheduler'):.1f}",
            ", ".join(f"{name.lower()} {value:.1f}" for name, value in most),
            f"{figure(text, 'DRAM Throughput'):.0f}"]


def main(arguments):
    readme, what = arguments[:2]
    with open(readme, encoding="utf-8") as file:
        lines = file.read().split("\n")
    late = missed(goals(lines))
    rows = table(lines, LIMITS)
    folder = arguments[2] if len(arguments) > 2 else "."
    if not what.startswith("--"):
        with ThreadPoolExecutor(7) as pool:
            for i in rows:
                pool.submit(profile, *cells_of(lines[i])[:3], what, folder)
    wrong = 0
    for i in rows:
        cells = cells_of(lines[i])
        if (cells[0], cells[1]) not in late:
            print(f"{readme}: misses no target: {cells[0]} {cells[1]}")
            wrong += 1
            continue
        chained, target = late.pop((cells[0], cells[1]))
        cells[3:5] = [f"{chained:.2f}", f"{target:.1f}, +{100 * (chained / target - 1):.0f} %"]
        if what != "--check":
            cells[5:-1] = counted(page_of(folder, *cells[:2]))
        line = "| " + " | ".join(cells) + " |"
        if line != lines[i] and what == "--check":
            print(f"{readme} says\n  {lines[i]}\nthe times are\n  {line}")
            wrong += 1
        lines[i] = line
    for problem, variant in late:
        print(f"{readme}: says nothing on what limits {problem} {variant}")
        wrong += 1
    if what != "--check":
        with open(readme, "w", encoding="utf-8") as file:
            file.write("\n".join(lines))
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
