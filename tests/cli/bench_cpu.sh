# dawn9 bench on the CPU backends: rates compared with measured peak rates, and the convolution algorithms of each rule.
. "$(dirname "$0")/lib.sh"
for backend in $(cpu_backends); do # onednn is the last, if it is there
    cat >tiny.yaml <<Y
backend: $backend
precision: f32
threads: 1
model: {name: resnet9, channels: [8, 8, 64, 64]}
data: {dataset: synthetic, image_size: 16, synthetic_train: 64, synthetic_test: 16}
train: {epochs: 1, batch_size: 16}
tricks: {pool_before_activation: {position: before_norm}}
Y
    accepts "$dawn9" bench step --config tiny.yaml --json
    cp "$out" step.json
    # The best node's share of the peak rates. The limits are wide, to check units and not speed: small arrays stay in the
    # cache and exceed the copy's rate, and Winograd does fewer multiplications than are counted.
    json step.json '0.05 < max(n["of_ceiling"] for n in d["nodes"] if n["gflop_per_second"]) < 40' \
        '0.05 < max(n["of_ceiling"] for n in d["nodes"] if n["gigabytes_per_second"]) < 20' \
        '0 < d["run_seconds"] < 100' 'all((n["why"] == "") == (n["choice"] == "") for n in d["nodes"])'
done
# `bench ops` as JSON on cpu: 8 convolutions. The first has no gradient to its image; its two rules include norm and
# activation, and have no algorithm to choose.
accepts "$dawn9" bench ops --config tiny.yaml --backend cpu --json
json "$out" 'len(d["rules"]) == 3 * 8 - 1' 'sum("norm" in r["rule"] for r in d["rules"]) == 2' \
    'all(r["choice"] in [w["choice"] for w in r["algorithms"]] for r in d["rules"] if "norm" not in r["rule"])' \
    'any("pool" in r["rule"] for r in d["rules"])' \
    'all(any(w["choice"].startswith("own ") for w in r["algorithms"]) for r in d["rules"])' \
    'd["fastest_bare_seconds"] <= sum(min(w["seconds"] for w in r["algorithms"]) for r in d["rules"]) * 1.5'
# Both benches as text, on the last backend.
accepts "$dawn9" bench step --config tiny.yaml
says '^x peak: divided by the rate of a large matrix product, [0-9]+ GFLOP/s, or of a large copy, [0-9.]+ GB/s \(read'
says ' [0-9.]+ GFLOP/s +[0-9]+\.[0-9]{2}x$' '^predicted time of the whole run, with evaluations: 0:0[0-9]( \([0-9:]+ to [0-9:]+\))?$'
accepts "$dawn9" bench ops --config tiny.yaml
says '^  \* ' 'times the sum of fastest bare'
# The onednn backend chooses one of oneDNN's convolutions for each of the 23 rules, and lists ours beside them.
[ "$backend" = cpu ] || {
    count_is 23 ' GFLOP, [0-9.]+ ms in the step'
    count_is 23 '^  \* onednn '
    hides ' by the rule .*(norm|pool)'
    awk '/ GFLOP, / { rules++; own = 0 } /^  [* ] own / && !own { own = 1; listed++ } END { exit listed != rules }' "$out" ||
        fail "a rule without our algorithms"
}
verdict
