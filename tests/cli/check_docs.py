#!/usr/bin/env python3
"""Checks that what is written about the command is what the command says:

  every command has a man page, a folder of cases and a line in the overview's man page;
  the man page's NAME, SYNOPSIS and OPTIONS are those of --help, in both directions.

check_docs.py --quench PROGRAM --man FOLDER; exit status 0 silently, or 1 with one line a fault."""
import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def plain(roff):
    """The text of a page as scdoc writes it, without its markup."""
    text = re.sub(r"\\f[BIRP]", "", roff)
    text = text.replace(r"\-", "-").replace(r"\&", "").replace(r"\(aq", "'").replace(r"\[aq]", "'")
    text = text.replace(r"\.", ".").replace(r"\e", "\\").replace(r"\(dq", '"')
    return text


def man_options(page):
    """{"-q, --quiet": "print errors only"} from the OPTIONS section."""
    section = re.search(r'^\.SH OPTIONS\n(.*?)^\.SH ', page, re.S | re.M)
    if not section:
        return {}
    options, name = {}, None
    for line in section.group(1).splitlines():
        if re.match(r"-", line):
            name = line.strip()
            options[name] = ""
        elif line.startswith("."):
            continue
        elif name and line.strip():
            options[name] = (options[name] + " " + line.strip()).strip()
    return options


def help_options(text):
    options, name = {}, None
    for line in text.splitlines():
        row = re.match(r"  (?:    )?(-\S.*?)(?:\s{2,}(.*))?$", line)
        if row and not line.startswith(" " * 10):
            name = row.group(1)
            options[name] = row.group(2) or ""
        elif name and line.startswith(" " * 30):
            options[name] = (options[name] + " " + line.strip()).strip()
        else:
            name = None
    return options


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quench", required=True)
    parser.add_argument("--man", required=True)
    options = parser.parse_args()
    faults = []

    def quench(*arguments):
        return subprocess.run([options.quench, *arguments], capture_output=True, text=True,
                              check=True).stdout

    listed = re.findall(r"^  (\w+) +(\S.*)$", quench("--help"), re.M)
    if not listed:
        faults.append("quench --help lists no command")
    for name, summary in listed:
        if not list((ROOT / "tests/cli" / name).glob("*.sh")):
            faults.append(f"tests/cli/{name}: no case; every command has at least one")
        source = ROOT / f"docs/man/quench-{name}.1.scd"
        page_path = pathlib.Path(options.man, f"quench-{name}.1")
        if not source.exists() or not page_path.exists():
            faults.append(f"{source}: missing; every command has a man page")
            continue
        page = plain(page_path.read_text())
        text = quench(name, "--help")
        usage = re.search(r"^usage: (.*)$", text, re.M).group(1)
        if f"quench-{name} - {summary}" not in page:
            faults.append(f"{source}: NAME does not say '{summary}', the summary of --help")
        synopsis = re.search(r"^\.SH SYNOPSIS\n(.*?)^\.SH ", page, re.S | re.M).group(1)
        if usage not in [line.strip() for line in synopsis.splitlines()]:
            faults.append(f"{source}: SYNOPSIS is not '{usage}', the usage of --help")
        in_page, in_help = man_options(page), help_options(text)
        for option in sorted(set(in_page) | set(in_help)):
            if in_page.get(option) != in_help.get(option):
                faults.append(f"{source}: option {option}: the page says "
                              f"{in_page.get(option)!r}, --help {in_help.get(option)!r}")
        if not in_help:
            faults.append(f"quench {name} --help lists no option")
    overview = plain(pathlib.Path(options.man, "quench.1").read_text())
    for name, summary in listed:
        if f"quench-{name}(1)" not in overview or summary not in overview:
            faults.append(f"quench.1: does not list {name} with its summary")
    print(*faults, sep="\n", end="\n" if faults else "")
    sys.exit(1 if faults else 0)


if __name__ == "__main__":
    main()
