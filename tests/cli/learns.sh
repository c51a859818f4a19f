# Three epochs on the synthetic set reach more than 95%, and the process takes less than twice the time of its steps in
# `dawn9 bench`. On the CPU backend a step must have more than half the rate of large matrix products, in the mean of
# two benches. Its share of that rate was 0.6 to 0.9 on two idle cores. Beside six busy processes it was 0.87 to 1.33,
# above 1 because Winograd saves operations that are counted; 0.27 to 0.65 with each Winograd convolution run thrice.
. "$(dirname "$0")/lib.sh"
config=$source/configs/synthetic.yaml

measure() { # FILE
    accepts "$dawn9" bench step --config "$config" --set threads=2 --json
    cp "$out" "$1"
}
measure before.json
accepts "$dawn9" train "$config" --set threads=2 --set train.epochs=3 --set eval.every=0 --out run --json
cp "$out" run.json
measure after.json

record run 'd["accuracy"] > 95'
asserts <<'PYTHON'
run, *benches = (json.load(open(name + ".json")) for name in ("run", "before", "after"))
steps = run["steps"] * max(bench["step_seconds"] for bench in benches)
print(f"the process took {run['process_seconds']:.2f} s, its steps take {steps:.2f} s in bench")
assert run["process_seconds"] < 2 * steps, "more than twice the time of its steps"
for bench in benches:
    if run["backend"] == "cpu":
        operations = sum(node["gflop_per_second"] * node["seconds"] for node in bench["nodes"])
        bench["share"] = operations / bench["step_seconds"] / bench["matrix_gflop_per_second"]
        print(f"a step has {bench['share']:.2f} of the matrix product's rate")
assert run["backend"] != "cpu" or sum(bench["share"] for bench in benches) / 2 > 0.5, "a step is too slow"
PYTHON
cat "$out"

verdict
