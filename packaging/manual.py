#!/usr/bin/env python3
"""Writes a program's man page in man(7) from what its argument parser says of it.

usage: PROGRAM --experimental-dump-help | packaging/manual.py SECTION [SEE-ALSO]...

The text is the help's own: paragraphs, and blocks with a heading in capitals (EXAMPLES, EXIT CODES).
"""
import json
import sys


def escaped(text):
    """Text as roff shows it: no hyphens for minus signs, no requests, no escapes."""
    lines = text.replace("\\", "\\e").replace("-", "\\-").replace("…", "...").split("\n")
    return "\n".join("\\&" + line if line[:1] in (".", "'") else line for line in lines)


def blocks(discussion):
    """(heading or None, lines): what comes before the first heading is the description."""
    heading, lines = None, []
    for line in (discussion or "").split("\n"):
        if line.strip() and line == line.upper() and line[:1].isalpha():
            yield heading, lines
            heading, lines = line.strip(), []
        else:
            lines.append(line)
    yield heading, lines


def paragraphs(lines):
    text = "\n".join(lines).strip("\n")
    return [" ".join(part.split()) for part in text.split("\n\n") if part.strip()]


def option(argument):
    if argument["kind"] == "positional":
        return f"\\fI{escaped(argument['valueName'])}\\fR"
    names = sorted(argument.get("names") or [], key=lambda name: name["kind"] == "long")
    shown = [("-" if name["kind"] == "short" else "--") + name["name"] for name in names]
    value = argument.get("valueName") if argument["kind"] == "option" else None
    line = ", ".join("\\fB" + escaped(name) + "\\fR" for name in shown)
    return line + (f" \\fI{escaped(value)}\\fR" if value else "")


def description(argument):
    text = " ".join(filter(None, [argument.get("abstract"), argument.get("discussion")]))
    notes = []
    # A placeholder with bars already lists the values.
    if argument.get("allValues") and "|" not in (argument.get("valueName") or ""):
        notes.append("One of " + ", ".join(argument["allValues"]) + ".")
    if argument.get("defaultValue") and "(default" not in text:
        notes.append(f"Default: {argument['defaultValue']}.")
    return " ".join([text.rstrip()] + notes)


def arguments(command):
    for argument in command.get("arguments") or []:
        names = {name["name"] for name in argument.get("names") or []}
        if argument.get("shouldDisplay", True) and not names & {"help", "version"}:
            yield argument


def body(command, out, heading):
    for title, lines in blocks(command.get("discussion")):
        if title:
            out.append(f"{heading} {title if heading == '.SH' else title.capitalize()}")
            indented = [line.rstrip() for line in lines]
            while indented and not indented[-1]:
                indented.pop()
            out += [".nf", escaped("\n".join(indented)), ".fi"]
        else:
            for number, text in enumerate(paragraphs(lines)):
                out += [".PP"] * (number > 0) + [escaped(text)]


def options(command, out):
    for argument in arguments(command):
        out += [".TP", option(argument), escaped(description(argument))]


def page(tool, section, see_also):
    command = tool["command"]
    name = command["commandName"]
    subcommands = [sub for sub in command.get("subcommands") or [] if sub["commandName"] != "help"]
    out = [
        f'.TH {name.upper()} {section}', ".SH NAME", f"{name} \\- {escaped(command['abstract'].rstrip('.'))}", ".SH SYNOPSIS",
    ]
    for number, sub in enumerate(subcommands):
        out += [".br"] * (number > 0) + [f"\\fB{name}\\fR \\fB{sub['commandName']}\\fR [\\fIoptions\\fR]"]
    out.append(".SH DESCRIPTION")
    body({"discussion": command.get("discussion")}, out, ".SH")
    if len(subcommands) > 0:
        out.append(".SH COMMANDS")
    for sub in subcommands:
        out += [f".SS {name} {sub['commandName']}", escaped(sub["abstract"])]
        if sub.get("discussion"):
            out.append(".PP")
            body(sub, out, ".PP\n")
        options(sub, out)
    if see_also:
        out += [".SH SEE ALSO", ", ".join(f"\\fB{word.split('(')[0]}\\fR({word.split('(')[1]}" for word in see_also)]
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    if len(sys.argv) < 2 or not sys.argv[1].isdigit():
        sys.exit(__doc__)
    sys.stdout.write(page(json.load(sys.stdin), sys.argv[1], sys.argv[2:]))
