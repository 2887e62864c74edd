#!/bin/sh
# make-man.sh QUENCH PAGE.scd OUT — a man page: the hand-written page with the sections that
# `quench man` makes from the option tables in place of its line @SECTIONS@. Pages of section 5 have
# none.
set -eu
[ $# -eq 3 ] || { sed -n '2,4s/^# \{0,1\}//p' "$0"; exit 2; }
name=$(basename "$2" .1.scd)
case $name in
*.5.scd) sections= ;;
quench) sections=$("$1" man) ;;
*) sections=$("$1" man "${name#quench-}") ;;
esac
: "${SOURCE_DATE_EPOCH:=$(git -C "$(dirname "$2")" log -1 --format=%ct 2>/dev/null || date +%s)}"
export SOURCE_DATE_EPOCH
while IFS= read -r line; do
    if [ "$line" = @SECTIONS@ ]; then printf '%s\n' "$sections"; else printf '%s\n' "$line"; fi
done <"$2" | scdoc >"$3.tmp"
mv "$3.tmp" "$3"
