#!/usr/bin/env python3
# Writes unicode_tables.inc from Python's unicodedata: python3 make_unicode_tables.py > unicode_tables.inc
# (Debian 12: Python 3.11, Unicode 14, the version its PCRE2 has.) Not part of the build.
import unicodedata as ud

LAST = 0x10FFFF
HANGUL = range(0xAC00, 0xD7A4)


def ranges(wanted):
    out = []
    for c in range(LAST + 1):
        if not wanted(ud.category(chr(c))):
            continue
        if out and out[-1][1] == c - 1:
            out[-1][1] = c
        else:
            out.append([c, c])
    return out


def mapping(f, skip=()):
    return [(c, m) for c in range(LAST + 1) if c not in skip and (m := ord(f(chr(c))[0])) != c]


# Runs of code points `step` apart with one distance to their images.
def delta_runs(pairs):
    out = []
    for c, m in pairs:
        if out:
            first, last, step, delta = out[-1]
            if m - c == delta and (c - last == step or (first == last and c - last <= 2)):
                out[-1] = (first, c, c - last, delta)
                continue
        out.append((c, c, 1, m - c))
    return out


# Runs of neighbours with one image.
def image_runs(pairs):
    out = []
    for c, m in pairs:
        if out and out[-1][1] == c - 1 and out[-1][2] == m:
            out[-1][1] = c
        else:
            out.append([c, c, m])
    return out


def table(type_name, name, rows, fmt):
    print(f"constexpr {type_name} {name}[] = {{")
    line = "   "
    for row in rows:
        cell = " " + fmt(*row) + ","
        if len(line) + len(cell) > 110:
            print(line)
            line = "   "
        line += cell
    print(line + "\n};")


print(f"// Made by make_unicode_tables.py from Unicode {ud.unidata_version}; do not edit.")
pair = lambda a, b: f"{{{a:#x}, {b:#x}}}"
table("CodeRange", "punctuation", ranges(lambda g: g[0] == "P"), pair)
table("CodeRange", "marks", ranges(lambda g: g[0] == "M"), pair)
table("CodeRange", "controls", ranges(lambda g: g[0] == "C" and g != "Cn"), pair)
table("DeltaRun", "lowercase", delta_runs(mapping(str.lower)), lambda a, b, s, d: f"{{{a:#x}, {b:#x}, {s}, {d}}}")
table("ImageRun", "decomposition_starts", image_runs(mapping(lambda c: ud.normalize("NFD", c), HANGUL)),
      lambda a, b, m: f"{{{a:#x}, {b:#x}, {m:#x}}}")
