# SPDX-License-Identifier: MIT
"""The times in the README are rows of bench/baselines/h200.tsv.

times_table.py README.md h200.tsv writes a measurement's figures into the rows of the README's table;
with --check it changes nothing and fails where a figure is another, or a row was not measured.
"""
import csv
import sys

HEAD = "| problem | variant | floor us |"
# columns of the table that are a row's: the others (target, peers) are the README's own
FLOOR, PLAIN, CHAINED, PERCENT, RATIO, NMSE = 2, 3, 4, 5, 8, 9


def measured(path):
    rows = {}
    with open(path, encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            # measured twice: the first counts
            rows.setdefault(row["kernel"].split("/")[1], {}).setdefault(row["problem"], row)
    return rows


def one_row(rows, problem, variant):
    words = set(problem.split())
    found = sorted((len(have.split()), have, row) for have, row in rows.get(variant, {}).items()
                   if words <= set(have.split()))
    if not found or (len(found) > 1 and found[0][0] == found[1][0]):
        return None
    return found[0][2]  # the one that says least beside


def with_figures(line, rows):
    cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
    plain = one_row(rows, cells[0], cells[1])
    chained = one_row(rows, cells[0], cells[1] + " (chain)")
    if plain is None:
        return None
    cells[FLOOR], cells[PLAIN], cells[RATIO] = plain["floor_us"], plain["us"], plain["ratio"]
    cells[PERCENT], cells[NMSE] = plain["pct_floor"], plain["nmse"]
    cells[CHAINED] = chained["us"] if chained else "-"
    return "| " + " | ".join(cells) + " |"


def main(arguments):
    check = "--check" in arguments
    readme, table = [word for word in arguments if word != "--check"]
    rows = measured(table)
    with open(readme, encoding="utf-8") as file:
        lines = file.read().split("\n")
    at = next(i for i, line in enumerate(lines) if line.startswith(HEAD)) + 2
    wrong = 0
    while lines[at].startswith("|"):
        line = with_figures(lines[at], rows)
        if line is None:
            print(f"no single row of {table} is this one: {lines[at]}")
            wrong += 1
        elif line != lines[at]:
            if check:
                print(f"{readme} says\n  {lines[at]}\nmeasured was\n  {line}")
                wrong += 1
            lines[at] = line
        at += 1
    if not check:
        with open(readme, "w", encoding="utf-8") as file:
            file.write("\n".join(lines))
    return wrong != 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
