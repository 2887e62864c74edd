#!/bin/sh
# check-rooms.sh [ROOT] — every #include "room/header.h" below src/ must be an edge of src/ROOMS, and
# from outside a room only its one header <room>/<room>.h may be included; banned.h is base's own.
# Silent and 0, or one line per fault: file:line: what is wrong and how to fix it.
case "${1:-}" in --help) sed -n '2,4s/^# //p' "$0"; exit 0 ;; esac
root=${1:-.}
cd "$root/src" || exit 1
find . -name '*.[ch]' | sort | xargs grep -n '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' /dev/null |
awk -v rooms=ROOMS '
BEGIN {
    while ((getline line < rooms) > 0) {
        if (line ~ /^#/ || line !~ /:/) continue
        split(line, half, ":"); gsub(/[ \t]/, "", half[1]); known[half[1]] = 1
        n = split(half[2], may, /[ \t]+/)
        for (i = 1; i <= n; i++) if (may[i] != "") edge[half[1], may[i]] = 1
    }
}
{
    match($0, /^[^:]*:[0-9]*:/); where = substr($0, 1, RLENGTH - 1)
    split(where, at, ":"); split(at[1], path, "/"); room = path[2]
    inc = $0; sub(/^[^"]*"/, "", inc); sub(/".*/, "", inc)
    split(inc, part, "/"); to = part[1]
    sub(/^\.\//, "src/", where)
    if (to == "quench" || to == room || inc ~ /\.def$/) next
    if (edge[room, "public"])
        fault = "room " room " may include public headers (quench/...) only"
    else if (!known[to]) fault = "write includes with the room in front: \"room/header.h\""
    else if (!edge[room, to]) fault = "room " room " may not know room " to " (src/ROOMS)"
    else if (part[2] != to ".h") fault = "include \"" to "/" to ".h\", the one header that the room shows"
    else next
    print where ": \"" inc "\": " fault; bad = 1
}
END { exit bad }'
