# Every golden vector through the command, both ways, with and without weights.
goldens=$CASES/../goldens
n=0 differing=0
same() {
    n=$((n + 1))
    cmp "$1" "$2" || differing=$((differing + 1))
}
for file in "$goldens"/*.bin; do
    name=${file##*/} name=${name%.bin} type=${name%.imat}
    set -- --type "$type" --cols 1024 --rows 8
    if [ "$name" != "$type" ]; then set -- "$@" --weights "$goldens/imatrix.f32"; fi
    quench codec --quiet "$@" encode "$goldens/inputs.f32" out.bin
    same out.bin "$file"
done
for file in "$goldens"/*.f32; do
    type=${file##*/} type=${type%.f32} blocks=$goldens/$type.bin
    case $type in inputs | imatrix) continue ;; esac
    [ -e "$blocks" ] || blocks=$goldens/$type.imat.bin
    quench codec --type "$type" --cols 1024 --rows 8 decode "$blocks" out.f32
    same out.f32 "$file"
done
echo "$n files, $differing differ"
