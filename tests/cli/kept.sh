# Committed measurements (experiments/keep.sh): committed tables and summaries, and tricks/measured.def, are made again
# from the archives and have the same bytes.
. "$(dirname "$0")/lib.sh"
results=$source/experiments/results
keep=$source/experiments/keep.sh

same() { # OURS COMMITTED
    cmp "$1" "$2" >"$err" 2>&1 || fail "not what its records give (meant so? experiments/keep.sh write): $2"
}

# ---- the archives have their digests and canonical packing ----
accepts env -C "$results" sha256sum --check --quiet archives.sha256
for archive in "$results"/*/*/records.tar.gz; do
    kept=$(dirname "$archive") name=$(basename "$(dirname "$archive")")
    grep -q "  ${archive#"$results/"}$" "$results/archives.sha256" || fail "$archive is not in archives.sha256"
    accepts "$keep" unpack "$kept" "unpacked/$name"
    accepts "$keep" pack "unpacked/$name" "packed/all/$name"
    gzip -dc "$archive" >committed.tar
    gzip -dc "packed/all/$name/records.tar.gz" >again.tar
    same again.tar committed.tar
done

# ---- experiments: tables ----
for kept in cpu/ablate-airbench-small cpu/ablate-small cpu/ladder-small cpu/resnet18-small gpu/h200-ladder; do
    name=$(basename $kept)
    accepts "$keep" report "$results/$kept" "$name" "$dawn9"
    for table in arms effects runs machines; do same "$name/report/$table.tsv" "$results/$kept/report/$table.tsv"; done
done
for page in "$results"/*/*/report.html; do # a committed page links nothing that is missing
    for link in $(grep -o 'href="[^"#]*' "$page" | cut -d '"' -f 2 | grep -v '^data:' | sort -u); do
        [ -f "$(dirname "$page")/$link" ] || fail "$page links what is not there: $link"
    done
done
accepts "$keep" report "$results/cpu/first-trick" first-trick "$dawn9"
same first-trick/report/effects.tsv "$results/cpu/first-trick/report/effects.tsv"
python3 "$source/experiments/measured.py" ablate-small resnet18-small ablate-airbench-small >measured.def
same measured.def "$source/tricks/measured.def"

# ---- a changed run changes the tables ----
sed -E 's/^(  "accuracy_tta": [0-9])[0-9]*/\10/' ladder-small/runs/11-ema/seed3/result.json >changed
cmp -s changed ladder-small/runs/11-ema/seed3/result.json && fail "no run was changed"
mv changed ladder-small/runs/11-ema/seed3/result.json
accepts "$dawn9" report ladder-small
for table in arms effects runs; do
    cmp -s "ladder-small/report/$table.tsv" "$results/cpu/ladder-small/report/$table.tsv" &&
        fail "a changed run leaves $table.tsv as it was"
done

# ---- measurements of speed: their summaries ----
for pair in bench-cpu/bench-bf16 bench-cpu/bench-f32 networks/networks networks/networks-airbench precision/precision \
    rosetta/rosetta side-by-side/side-by-side bench-sources/sources-avx512 bench-sources/sources-zen4; do
    name=${pair#*/}
    accepts python3 "$source/experiments/${pair%/*}.py" "unpacked/$name"
    same "$out" "$results/cpu/$name/summary.txt"
done
for name in networks networks-airbench; do
    same "unpacked/$name/networks.tsv" "$results/cpu/$name/networks.tsv"
done
same unpacked/precision/precision.tsv "$results/cpu/precision/precision.tsv"
same unpacked/rosetta/rosetta.tsv "$results/cpu/rosetta/rosetta.tsv"

accepts python3 "$source/experiments/speed.py" unpacked/recipes
same "$out" "$results/speed/recipes/summary.txt"
same unpacked/recipes/speed.tsv "$results/speed/recipes/speed.tsv"

# ---- configurations of measured runs are those of today's files ----
hashes='import json, sys
here = {arm["name"]: arm["config_hash"] for arm in json.load(open(sys.argv[1]))["arms"]}
for name, path in (word.split("=", 1) for word in sys.argv[2:]):
    run = json.load(open(path))
    if run["config"]["backend_options"]["cpu_level"] == "auto" and here[name] != run["config_hash"]: print(path)'
runs_are_of() { # ARMS FOLDER: each FOLDER/ARM/RUN has the configuration of its arm in the file ARMS
    for run in "$2"/*/*/result.json; do
        arm=${run#"$2"/}
        printf '%s=%s\n' "${arm%%/*}" "$run"
    done >runs.list
    accepts xargs -a runs.list python3 -c "$hashes" "$1"
    [ ! -s "$out" ] || fail "of another configuration: $(cat "$out")"
}
{
    printf 'title: recipes\nconfig: %s\nset: {precision: f32, eval.every: 0}\narms:\n' "$source/configs/speed94.yaml"
    for recipe in unpacked/recipes/*/; do
        name=$(basename "$recipe") folder=configs
        [ ! -f "$source/experiments/earlier/$name.yaml" ] || folder=experiments/earlier # measured, and changed since
        echo "  $name: {config: $source/$folder/$name.yaml}"
    done
} >recipes.yaml
accepts "$dawn9" experiment recipes.yaml --dry-run --json
cp "$out" recipes.json
runs_are_of recipes.json unpacked/recipes
for search in speed94-search fewest94-search; do
    accepts "$dawn9" experiment "$source/experiments/$search.yaml" --dry-run --json
    cp "$out" search.json
    json search.json '{a["name"]: a["config_hash"] for a in d["arms"]} == {a["name"]: a["config_hash"] for a in json.load(open("'"$results/speed/$search"'/experiment.json"))["arms"]}'
    runs_are_of search.json "unpacked/$search/runs"
done

# ---- no committed file is large ----
if git -C "$source" rev-parse >/dev/null 2>&1; then
    (cd "$source" && git ls-files -z | xargs -0 sh -c 'find "$@" -maxdepth 0 -size +4096k' find) >large 2>"$err"
    [ ! -s large ] || fail "more than 4 MiB: $(cat large)"
fi
verdict
