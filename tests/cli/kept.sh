# Committed measurements (experiments/keep.sh): archives are intact; tables, summaries and tricks/measured.def that are
# made again from them have the same bytes; links of pages, hashes of configurations and sizes of files are right.
. "$(dirname "$0")/lib.sh"
results=$source/experiments/results
keep=$source/experiments/keep.sh

equals_committed() { # OURS COMMITTED
    same "$1" "$2" "not what its records give (meant so? experiments/keep.sh write): $2"
}

# ---- every archive has its digest and is packed as keep.sh packs; keep.sh packs three of them again ----
accepts env -C "$results" sha256sum --check --quiet archives.sha256
(cd "$results" && echo */*/records.tar.gz | tr ' ' '\n') >archives
sed 's/^[0-9a-f]*  //' "$results/archives.sha256" | LC_ALL=C sort | diff archives - >"$err" || fail "other archives than in archives.sha256"
asserts "$results" <<'PYTHON'
import glob, gzip, os, re, tarfile
for path in glob.glob(sys.argv[1] + "/*/*/records.tar.gz"):
    packed, blocks = gzip.open(path).read(), []
    with tarfile.open(path) as archive:
        files = sorted(archive, key=lambda file: os.fsencode(file.name))
    for file in files:
        assert not re.search(r"\.safetensors$|^report/|^(report\.html|summary\.txt|records\.tar\.gz)$", file.name), (path, file.name)
        plain = tarfile.TarInfo(file.name)
        plain.size, plain.mode = file.size, 0o644
        blocks += plain.tobuf(tarfile.GNU_FORMAT), packed[file.offset_data:file.offset_data + -(-file.size // 512) * 512]
    size = sum(map(len, blocks)) + 1024 # a tar ends with two empty blocks, and is a multiple of 10 KiB
    assert b"".join(blocks) + bytes(1024 + -size % 10240) == packed, "not packed as keep.sh packs: " + path
PYTHON
for kept in cpu/first-trick cpu/verify gpu/h200-ladder; do
    accepts "$keep" unpack "$results/$kept" "unpacked/$kept"
    accepts "$keep" pack "unpacked/$kept" "packed/$kept"
    gzip -dc "$results/$kept/records.tar.gz" >committed.tar
    gzip -dc "packed/$kept/records.tar.gz" | cmp -s - committed.tar || fail "keep.sh packs $kept in another way"
done

observe "$keep" pack mistyped "packed/$kept"
is $status 2 "status of packing a folder that is not there"
gzip -dc "packed/$kept/records.tar.gz" | cmp -s - committed.tar || fail "a mistyped folder changed the archive"
observe "$keep" unpack mistyped unpacked/cpu/none
[ $status != 0 ] || fail "unpacked an archive that is not there"

# ---- experiments: tables ----
tables() { # KEPT TABLE...
    kept=$1 name=${1#*/}
    shift
    accepts "$keep" report "$results/$kept" "$name" "$dawn9"
    for table in "$@"; do equals_committed "$name/report/$table.tsv" "$results/$kept/report/$table.tsv"; done
}
for kept in cpu/ablate-airbench-small cpu/ablate-depth-small cpu/ablate-small cpu/ladder-small cpu/resnet18-small \
    gpu/h200-ablate-augmentations-small gpu/h200-ablate-page gpu/h200-convergence gpu/h200-ladder gpu/h200-ladder-seed2; do
    tables $kept arms effects
done
tables gpu/h200-fewest94-frontier frontier trials
for table in runs machines; do # tables that a committed page links to
    equals_committed "ablate-airbench-small/report/$table.tsv" "$results/cpu/ablate-airbench-small/report/$table.tsv"
done
tables cpu/first-trick effects
for page in "$results"/*/*/report.html; do # a committed page links nothing that is missing
    for link in $(grep -o 'href="[^"#]*' "$page" | cut -d '"' -f 2 | grep -v '^data:' | sort -u); do
        [ -f "$(dirname "$page")/$link" ] || fail "$page links what is not there: $link"
    done
done
python3 "$source/experiments/measured.py" h200-ablate-page ablate-small resnet18-small ablate-airbench-small \
    h200-ablate-augmentations-small ablate-depth-small >measured.def
equals_committed measured.def "$source/tricks/measured.def"

# ---- what bf16 costs each network, in engine/models, follows from the records ----
PYTHONPATH=$source/docs python3 - <<'PYTHON' | LC_ALL=C sort >costs
import measured
for network in measured.BF16_PAIRS:
    values = measured.bf16_differences(network)
    print(f"{network}.c: {{{len(values)}, {measured.mean(values):.4f}, {measured.at_least(values):.4f}}}")
PYTHON
(cd "$source/engine/models" && grep -H '\.bf16_cost = ' ./*.c) | sed 's/^\.\///; s/ *\.bf16_cost = / /; s/,$//' | LC_ALL=C sort >written
diff written costs >"$err" || fail "engine/models: .bf16_cost is not what the records give (>)"

# ---- a changed run changes the tables ----
run=ladder-small/runs/11-ema/seed3/result.json
sed -E 's/^(  "accuracy_tta": [0-9])[0-9]*/\10/' $run >changed
differ changed $run && mv changed $run
accepts "$dawn9" report ladder-small
for table in arms effects; do differ "ladder-small/report/$table.tsv" "$results/cpu/ladder-small/report/$table.tsv"; done

# ---- other measurements: their summaries ----
summarise() { # SCRIPT KEPT: its summary, and the table SCRIPT.tsv if the archive has one
    accepts "$keep" unpack "$results/$2" "unpacked/${2#*/}"
    table=unpacked/${2#*/}/$1.tsv
    rm -f committed.tsv
    [ ! -f "$table" ] || mv "$table" committed.tsv
    accepts python3 "$source/experiments/$1.py" "unpacked/${2#*/}"
    equals_committed "$out" "$results/$2/summary.txt"
    [ ! -f committed.tsv ] || equals_committed "$table" committed.tsv
}
plots # precision.py draws a plot
for pair in bench-cpu/bench-bf16 bench-cpu/bench-f32 networks/networks precision/precision \
    rosetta/rosetta side-by-side/side-by-side bench-sources/sources-zen5 bench-sources/sources-zen4; do
    summarise "${pair%/*}" "cpu/${pair#*/}"
done
summarise speed speed/recipes

# ---- configurations of measured runs have the hashes of the current files ----
hashes='import json, sys
here = {arm["name"]: arm["config_hash"] for arm in json.load(open(sys.argv[1]))["arms"]}
for name, path in (word.split("=", 1) for word in sys.argv[2:]):
    run = json.load(open(path))
    if run["config"]["backend_options"]["cpu_level"] == "auto" and here[name] != run["config_hash"]: print(path)'
runs_are_of() { # ARMS FOLDER: each FOLDER/ARM/RUN has the configuration of its arm in ARMS, unless it sets a CPU level
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
        [ ! -f "$source/experiments/earlier/$name.yaml" ] || folder=experiments/earlier # the recipe as it was measured
        echo "  $name: {config: $source/$folder/$name.yaml}"
    done
} >recipes.yaml
accepts "$dawn9" experiment recipes.yaml --dry-run --json
cp "$out" recipes.json
runs_are_of recipes.json unpacked/recipes
for search in speed94-search fewest94-search; do
    accepts "$keep" unpack "$results/speed/$search" "unpacked/$search"
    accepts "$dawn9" experiment "$source/experiments/$search.yaml" --dry-run --json
    cp "$out" search.json
    json search.json '{a["name"]: a["config_hash"] for a in d["arms"]} == {a["name"]: a["config_hash"] for a in json.load(open("'unpacked/$search'/experiment.json"))["arms"]}'
    runs_are_of search.json "unpacked/$search/runs"
done

# ---- no committed file is large ----
if git -C "$source" rev-parse >/dev/null 2>&1; then
    (cd "$source" && git ls-files -z | xargs -0 sh -c 'find "$@" -maxdepth 0 -size +4096k' find) >large 2>"$err"
    [ ! -s large ] || fail "more than 4 MiB: $(cat large)"
fi
verdict
