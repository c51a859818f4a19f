# dawn9 ablate: arms, companion settings of tricks, the record, and the commands that the page of a report prints.
. "$(dirname "$0")/lib.sh"
{
    tiny | sed 's/epochs: 2/epochs: 1/; s/synthetic_train: 128/synthetic_train: 64/; s/flip: {}/flip: {}, celu: {alpha: 0.3}, frozen_bn_scale: {}/'
    echo 'ablate: {frozen_bn_scale: {celu.alpha: 0.075, train.bias_lr_multiplier: 2}}'
} >tiny.yaml

prints '^  frozen_bn_scale: \{celu.alpha: 0.075, train.bias_lr_multiplier: 2\}$' "$dawn9" config tiny.yaml
cp "$out" effective.yaml
accepts "$dawn9" config effective.yaml
same "$out" effective.yaml "the effective configuration does not load to itself"

prints '^runs       16 of 16 done$' "$dawn9" ablate tiny.yaml --only celu,frozen_bn_scale --seeds 2 --quiet
record=runs/ablate-tiny/experiment.json
json $record 'd["kind"] == "ablation" and len(d["arms"]) == 8' \
    '[a.get("trick") for a in d["arms"]][2:] == ["celu"] + ["frozen_bn_scale"] * 2 + ["celu"] + ["frozen_bn_scale"] * 2' \
    'sorted({r["seed"] for r in d["runs"]}) == [1, 2] and len({a["config_hash"] for a in d["arms"]}) == 8'
# an arm's run equals a separate run with the same edits
accepts "$dawn9" train tiny.yaml --without frozen_bn_scale --set tricks.celu.alpha=0.075 --set train.bias_lr_multiplier=2 --seed 2 --quiet --out alone
same_bits alone runs/ablate-tiny/runs/without-frozen_bn_scale+companions/seed2
prints '^runs       16 of 16 done$' "$dawn9" ablate tiny.yaml --only celu,frozen_bn_scale --seeds 2 --status

# every trick of dawn94, with the configuration's companions; the experiment file plans the same arms and runs
accepts "$dawn9" ablate "$source/configs/dawn94.yaml" --dry-run --json --seeds 10
cp "$out" direct.json
json direct.json 'len(d["arms"]) == 2 + 2 * (10 + 1)'
accepts "$dawn9" experiment "$source/experiments/ablate-dawn94.yaml" --dry-run --json
json "$out" 'd["arms"] == json.load(open("direct.json"))["arms"] and d["runs"] == json.load(open("direct.json"))["runs"]'

rejects 2 'ablate' "$dawn9" ablate tiny.yaml --set 'tricks={crop: off, flip: off, celu: off, frozen_bn_scale: off, flip_tta: off}'
sed 's/celu.alpha: 0.075/celu.alhpa: 0.075/' tiny.yaml >bad.yaml
rejects 2 'tricks.celu.alhpa alpha' "$dawn9" ablate bad.yaml
sed 's/ablate: {frozen_bn_scale/ablate: {frozen_bn/' tiny.yaml >bad.yaml
rejects 2 'bad.yaml:[0-9]+:[0-9]+ ablate.frozen_bn frozen_bn_scale' "$dawn9" ablate bad.yaml

rejects 2 '--lr train.lr.peak' "$dawn9" ablate tiny.yaml --lr abc

# ---- the commands under "Reproduce" on a page make the same tables ----
again() { # PAGE: writes the commands under "Reproduce" to again.sh
    python3 -c 'import html, re, sys
print(html.unescape(re.search("<h2>Reproduce</h2>.*?<pre>(.*?)</pre>", sys.stdin.read(), re.S).group(1)))' <"$1" >again.sh
}
PATH=$(dirname "$dawn9"):$PATH
accepts "$dawn9" ablate tiny.yaml --only celu --seeds 2 --quiet --set 'train.lr={knots: [0, end], values: [0.4, 0]}' --out runs/asked
accepts "$dawn9" report runs/asked
again runs/asked/report.html
lines_are 2 again.sh
accepts "$dawn9" ablate tiny.yaml --only flip --seeds 2 --quiet --set 'train.lr={knots: [0, end], values: [0.4, 0]}' --out runs/asked
(cd runs/asked && "$dawn9" report .) >"$out" 2>"$err" || fail "a report of the folder one is in"
again runs/asked/report.html
[ "$(grep -c -- '--only .* --seeds 2 --out runs/asked$' again.sh)" = 2 ] && [ "$(wc -l <again.sh)" = 3 ] || fail "again: $(cat again.sh)"
mkdir elsewhere && cp tiny.yaml elsewhere
(cd elsewhere && sh -e ../again.sh) >"$err" 2>&1 || fail "the commands of a page fail: $(cat "$err")"
same runs/asked/report/effects.tsv elsewhere/runs/asked/report/effects.tsv "the page's commands make other figures"
accepts "$dawn9" train tiny.yaml --runs 2 --quiet --out runs/plain
accepts "$dawn9" report runs/plain
again runs/plain/report.html
(cd runs && sh -e ../again.sh) >"$err" 2>&1 || fail "the commands of a page fail: $(cat "$err")"
cut -f 2-8 runs/plain/report/arms.tsv >a.tsv
cut -f 2-8 runs/runs/again/report/arms.tsv >b.tsv
same a.tsv b.tsv "the page's commands make other figures: $(cat b.tsv)"
verdict
