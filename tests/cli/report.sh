# dawn9 report: page and tables of complete, partial and missing runs, also without gnuplot.
. "$(dirname "$0")/lib.sh"
tiny >tiny.yaml

# ---- an experiment: two arms, three seeds ----
mkdir -p exp/runs
accepts "$dawn9" train tiny.yaml --runs 3 --out exp/runs/full
accepts "$dawn9" train tiny.yaml --runs 3 --out exp/runs/bare --without crop --set keep=none
asserts <<'PYTHON'
arm = lambda name, label, baseline: {"name": name, "label": label, "baseline": baseline, "edits": ["--without crop"] if baseline else [],
    "grid": {}, "config_hash": json.load(open(f"exp/runs/{name}/seed1/result.json"))["config_hash"]}
runs = [{"arm": a, "seed": s, "folder": f"runs/{a}/seed{s}"} for s in (1, 2, 3) for a in ("full", "bare")]
json.dump({"title": "crop & <b>bold</b>", "question": "Is 'crop' worth it?<script>alert(1)</script>", "kind": "ablation", "target": 5,
    "commands": ["dawn9 ablate tiny.yaml --only crop --seeds 3 --set title=" + 5000 * "x"],
    "file": "tiny.yaml", "arms": [arm("full", "full", None), arm("bare", "without <i>\"crop\"</i>", "full")], "seeds": [1, 2, 3],
    "runs": runs}, open("exp/experiment.json", "w"))
PYTHON
prints '^verdict    without <i>"crop"</i> (and full cannot be told apart|is (better|worse) than full)' "$dawn9" report exp
says '^runs       6 of 6 finished, in 2 arms$' '^page       exp/report.html$'
for table in arms effects runs machines; do
    [ -s exp/report/$table.tsv ] || fail "there is no $table.tsv"
    has exp/report.html "<table id=\"table-$table\">"
done
has exp/report/forest.tsv '”crop”'
[ "$(wc -l <exp/report/runs.tsv)" = 7 ] && [ "$(wc -l <exp/report/effects.tsv)" = 2 ] || fail "not a row for each run and difference"
has exp/report.html 'bare/seed2/result.json">result.json</a>'
lacks exp/report.html '<script>alert|<b>|<i>'
has exp/report.html 'crop &amp; &lt;b&gt;bold&lt;/b&gt;'
grep -oE "(src|href)=[\"'][^\"']*|url\(.{8}|@import" exp/report.html |
    grep -vE "^(src=.data:image/png;base64,|href=.(\./|report/|data:,|#))" >"$err" && fail "the page wants something from elsewhere"
grep -qF "$scratch" exp/report.html && fail "the page names a folder of this machine"
has exp/report.html 'dawn9 ablate tiny.yaml --only crop --seeds 3 --set title=x{5000} --out runs/exp$'

# The curves of runs that were evaluated with TTA only at the end are without TTA throughout, and say so.
asserts <<'PYTHON'
import csv
table = lambda name: list(csv.DictReader((line for line in open(f"exp/report/{name}.tsv") if line.strip()), delimiter="\t"))
rows = {(row["arm"], row["seed"], row["epoch"]): float(row["accuracy"]) for row in table("curves")}
runs = [json.load(open(f"exp/runs/full/seed{seed}/result.json")) for seed in (1, 2, 3)]
assert any(run["accuracy"] != run["accuracy_tta"] for run in runs)
for run in runs:
    assert [rows["full", str(run["seed"]), str(e)] for e in (1, 2)] == [row["accuracy"] for row in run["epochs"]], rows
means = [row for row in table("accuracy_means") if row["arm"] == "full"]
for row in means:
    scores = [rows["full", str(seed), row["epoch"]] for seed in (1, 2, 3)]
    assert abs(float(row["mean"]) - sum(scores) / 3) < 1e-6, (row, scores)
assert [row["epoch"] for row in means] == ["1", "2"]
bars = [(row["low"], row["high"]) for row in table("ladder")]
assert bars == [(row["accuracy_low"], row["accuracy_high"]) for row in table("arms")] and len(bars) == 2, bars
settings = dict(line.split(" = ", 1) for line in open("exp/report/settings.gp"))
low, high, tick = (float(settings[f"forest_{key}"]) for key in ("low", "high", "tick"))
assert low < 0 < high and 2 < (high - low) / tick < 6, settings # the axis has about four marks
PYTHON
has exp/report/settings.gp 'without TTA'
mkdir -p every
accepts "$dawn9" train tiny.yaml --set eval.tta=every --out every/run
accepts "$dawn9" report every
lacks every/report/settings.gp 'without TTA'
# The page of a single run has no range of scores; that of a run without TTA has no second score.
has every/report.html 'final, without TTA'
lacks every/report.html 'lowest and highest run'
has exp/report.html 'lowest and highest run'
accepts "$dawn9" train tiny.yaml --without flip_tta --out without/run
accepts "$dawn9" report without
lacks without/report.html 'final, without TTA'
odd=without/$(printf 'then\377')
cp -r without/run "$odd"
sed -i 's/"config_hash": "./&0/' "$odd/result.json"
replies 'len(d["runs"]) == 2 and "(then?)" in d["verdict"]' "$dawn9" report without --json
cut -f 7 every/report/curves.tsv >"$out"
record every/run '[float(x) for x in open("'"$out"'").read().split()[1:]] == [e["accuracy_tta"] for e in d["epochs"]]'

[ "$(head -n 1 exp/report/arms.tsv | cut -f 1-4)" = "$(printf 'arm\taccuracy\taccuracy_low\taccuracy_high')" ] || fail "accuracy is not beside the arm"

accepts "$dawn9" report exp --json
json "$out" 'd["finished"] == d["asked"] == 6 and d["problems"] == [] and len(d["runs"]) == 6' \
    'd["arms"][0]["met"] <= 3 and d["effects"][0]["baseline"] == "full"'

# ---- a ladder ----
if plots; then
    mkdir chain && cp -r exp/runs chain
    asserts <<'PYTHON'
record = json.load(open("exp/experiment.json"))
third = dict(record["arms"][0], name="third", label="third", baseline="bare")
record["arms"].append(third)
record["runs"] += [dict(run, arm="third") for run in record["runs"] if run["arm"] == "full"]
json.dump(record, open("chain/experiment.json", "w"))
for arm in "full", "bare":
    for seed in 1, 2, 3:
        path = f"chain/runs/{arm}/seed{seed}/result.json"
        result = json.load(open(path))
        json.dump(dict(result, train_seconds=4321.0), open(path, "w"))
PYTHON
    accepts "$dawn9" report chain
    [ "$(grep -c '> *third<' chain/report/ladder.svg)" = 1 ] || fail "a step is named twice"
    has chain/report/ladder.svg '> *4000<'
fi
no_plots

# ---- runs scored by perplexity, where the lowest is best ----
mkdir confused && cp -r exp/runs confused
sed 's/"target": 5/"target": 220/' exp/experiment.json >confused/experiment.json
asserts <<'PYTHON'
import glob
for path in glob.glob("confused/runs/*/*/result.json"):
    result = json.load(open(path))
    result["measure"], result["target"] = "perplexity", 220
    for row in [result] + result["epochs"]:
        for key in ("", "_tta"):
            score = row.pop("accuracy" + key)
            row["perplexity" + key] = None if score is None else 200 - score + (50 if "bare" in path else 0)
    json.dump(result, open(path, "w"))
PYTHON
prints '^verdict    without <i>"crop"</i> is worse than full: [+][0-9.]+ \[' "$dawn9" report confused
plots && curve='aria-label="perplexity"' || curve=perplexity
accepts "$dawn9" report confused --json
json "$out" 'd["arms"][0]["perplexity"] < d["arms"][1]["perplexity"] and d["arms"][0]["met"] == 3 and d["arms"][1]["met"] == 0' \
    '"accuracy" not in d["arms"][0] and d["runs"][0]["perplexity"] > 100'
grep -qi 'accurac' confused/report.html && fail "the page of perplexities names accuracy"
no_plots
has confused/report.html "$curve"
prints '^  perplexity +[0-9.]+' "$dawn9" compare confused
cp exp/runs/full/seed2/result.json confused/runs/full/seed2
rejects 3 'full/seed2/result.json accuracy perplexity' "$dawn9" report confused

# ---- no readable result: the error says why ----
mkdir looped && cp exp/runs/full/seed1/config.yaml looped && ln -s result.json looped/result.json
rejects 3 'looped/?result.json|result.json Too.many.levels' "$dawn9" report looped

# ---- runs evaluated on different images ----
cp -r exp mixed
digest=$(sed -n 's/.*"data_digest": "\([0-9a-f]*\)".*/\1/p' mixed/runs/full/seed2/result.json)
[ ${#digest} = 16 ] || fail "the record has no data_digest: $digest"
sed -i "s/$digest/0123456789abcdef/" mixed/runs/full/seed2/result.json
replies 'd["problems"] == ["runs/full/seed2: evaluated on other images than runs/full/seed1"]' "$dawn9" report mixed --json

# ---- a seed trained twice is one sample ----
mkdir twice
for name in a b c; do cp -r exp/runs/full/seed1 twice/$name; done
accepts "$dawn9" report twice --json
json "$out" 'd["finished"] == 1 and [p.split(":")[0] for p in d["problems"]] == ["b", "c"]' \
    'all("does not count: the same configuration and seed as a" in p for p in d["problems"])' \
    'd["verdict"].endswith(" 2 of 3 runs do not count.")'

# ---- the same seed with other images is neither pooled nor ranked with the first ----
sed -i "s/$digest/0123456789abcdef/" twice/c/result.json
accepts "$dawn9" report twice --json
json "$out" 'd["finished"] == 2 and [a["runs"] for a in d["arms"]] == [1, 1]' \
    '[p.split(" the ")[0] for p in d["problems"]] == ["b: does not count:", "c: evaluated on other images than a"]' \
    'd["verdict"].startswith("These runs were not all evaluated on the same images: their accuracies are not compared.")'
has twice/report.html '<h2>Not counted, or not comparable</h2>'

# ---- validation images are not test images, and the page says which were used ----
mkdir aside
accepts "$dawn9" train tiny.yaml --quiet --set data.validation=32 --out aside/some
prints '^note       Accuracies are of validation images, not of the test images\.$' "$dawn9" report aside
has aside/report.html ' Accuracies are of validation images, '
cp -r exp/runs/full/seed2 aside/none
prints '^note       Accuracies of 1 runs are of validation images, of the other 1 of test images\.$' "$dawn9" report aside
says '^verdict    These runs were not all evaluated on the same images'
says '^problem    some: requests other data than none: '

# ---- "Reproduce" with a relative path of data ----
again=$(sed -n '/<h2>Reproduce/,/<\/pre>/p' aside/report.html)
case $again in *DIR*) fail "a folder of data where there is none: $again" ;; esac
sed -i 's/"dataset": "synthetic"/&, "path": "arr"/' aside/none/result.json
accepts "$dawn9" report aside
has aside/report.html '<p>With dawn9 at the commit of the table above, beside this folder; DIR is the folder of the data:</p>'
has aside/report.html 'dawn9 train aside/none/config.yaml --out runs/again/none --data DIR$'
has exp/report.html 'above, in the folder that these paths start from:</p>'

# ---- plots: SVG in the page, PNG files; the page without gnuplot ----
if plots; then
    accepts "$dawn9" report exp
    for plot in forest accuracy curves confusion; do
        [ "$(head -c 4 exp/report/$plot.png | tail -c 3)" = PNG ] || fail "$plot.png is no PNG"
        has exp/report.html "<svg role=img aria-label=\"$plot\""
    done
    (cd exp/report && gnuplot -d -c draw.gp forest pdf 2>"$err") || fail "forest.pdf was not drawn"
    [ "$(head -c 4 exp/report/forest.pdf)" = %PDF ] || fail "forest.pdf is no PDF"
    cp exp/report.html first.html
    echo 'set logscale y; set xrange [-1:100]; set title "mine"' >"$HOME/.gnuplot" # a user's settings have no effect
    accepts "$dawn9" report exp/
    same first.html exp/report.html "the same runs give another page"
    rm "$HOME/.gnuplot"
fi
no_plots
has exp/report.html '<img alt="The worst mistakes of one run" src="data:image/png;base64,iVBORw0KGgo'
[ "$(head -n 1 exp/report/confusions.tsv)" = "$(printf 'shown\tanswer\timages\tpercent')" ] || fail "there is no confusions.tsv"
mkdir nothing
prints '^note       There are no plots: gnuplot is not installed' env PATH="$PWD/nothing" "$dawn9" report exp
has exp/report.html 'There are no plots: gnuplot is not installed'
lacks exp/report.html '<svg'
has exp/report.html 'id="table-effects"'

# ---- incomplete runs: one line each, the others count ----
rm exp/runs/bare/seed1/result.json
head -c 700 exp/runs/bare/seed2/result.json >cut && mv cut exp/runs/bare/seed2/result.json
cp exp/runs/bare/seed3/result.json exp/runs/full/seed3/result.json
rm -r exp/runs/full/seed2
accepts "$dawn9" report exp
says '^runs       2 of 6 finished' '^problem    runs/bare/seed1: not finished: its last epoch is 2$'
says '^problem    runs/bare/seed2/result.json: [a-zA-Z ]+: line [0-9]+' '^problem    runs/full/seed2: not run yet$'
says '^problem    runs/full/seed3/result.json: is the run of another configuration$'
says '^verdict .*too few runs for an interval.* 2 of 6 runs do not count[.] 2 of 6 runs are missing[.]'
has exp/report.html 'not run yet</li>'

# ---- folders of plain runs, and a single one ----
accepts "$dawn9" train tiny.yaml --runs 2 --set train.epochs=1 --out many
plots
accepts "$dawn9" report many
no_plots
says '^verdict    2 runs: mean [0-9.]+%'
lacks many/report.html 'aria-label="accuracy"'
: >many/report/accuracy.png
accepts "$dawn9" report many
[ ! -e many/report/accuracy.png ] || fail "a plot stays that the page does not have"
prints '^verdict    One run: [0-9.]+%.*A single run has no interval\.$' "$dawn9" report many/seed2
has many/seed2/report.html 'href="./result.json"'

# ---- nothing to report, or nowhere to put it ----
rejects 3 'nowhere' "$dawn9" report nowhere
rejects 3 'nothing experiment.json' "$dawn9" report nothing
rm exp/runs/full/seed1/result.json exp/runs/full/seed3/result.json exp/runs/bare/seed3/result.json
rejects 3 'exp 6' "$dawn9" report exp
echo '{"title": "x", "arms": []' >exp/experiment.json
rejects 3 'exp/experiment.json JSON' "$dawn9" report exp
echo '{"title": "x", "arms": []}' >exp/experiment.json
rejects 3 'exp/experiment.json' "$dawn9" report exp
echo '{"arms": [{"name": "a", "baseline": "b"}], "runs": []}' >exp/experiment.json
rejects 3 'baseline' "$dawn9" report exp
rm -r many/seed2/report
echo x >many/seed2/report
rejects 6 'many/seed2/report' "$dawn9" report many/seed2
verdict
