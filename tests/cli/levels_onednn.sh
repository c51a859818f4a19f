# Every x86-64 level, forced on this machine: a whole run with loops and oneDNN held to it gives the same training.
. "$(dirname "$0")/lib.sh"
needs_onednn
[ "$(uname -m)" = x86_64 ] || skips x86-64 "$(uname -m) has no such levels"
tiny | slower | sed 's/backend: reference/backend: onednn/; s/\[4, 4, 8, 8\]/[16, 16, 32, 32]/' >levels.yaml

# ---- f32 on each; one beyond this processor is refused with the best it has, and v2 runs on every machine that builds ----
ran=
for level in plain v2 v3 v4 v4bf16; do
    observe "$dawn9" train levels.yaml --set backend_options.cpu_level=$level --out $level --quiet
    if [ $status = 4 ]; then
        grep -q "cpu_level $level: this processor does not run it (the best it runs is v[23])" "$err" || fail "$level: refused with"
        continue
    fi
    [ $status = 0 ] || fail "$level: status $status"
    ran="$ran $level"
    json $level/result.json 'd["config"]["backend_options"]["cpu_level"] == "'$level'"'
    json $level/result.json 'd["isa"] == {"v4bf16": "avx512-bf16"}.get("'$level'", "'$level'")'
done
case $ran in *" plain v2"*) ;; *) fail "only$ran ran" ;; esac

# What oneDNN chose says which instructions it uses ("jit:avx2"): of none beyond the level, and from v3 on of the best
# within it.
choices='[rule["choice"] for rule in d["rules"]]'
uses() { json "$1/result.json" "any(\"$2\" in c for c in $choices)"; }
spares() { json "$1/result.json" "len($choices) > 30 and not any(\"$2\" in c for c in $choices)"; }
for level in $ran; do
    case $level in
    plain | v2) spares $level avx ;;
    v3) uses $level avx2; spares $level avx512 ;;
    *) uses $level avx512; spares $level amx ;;
    esac
done

accepts "$dawn9" train levels.yaml --set train.epochs=0.5 --out auto --quiet # no further than the processor
case $ran in *v4*) uses auto avx512 ;; *v3*) uses auto avx2; spares auto avx512 ;; esac

# The losses but for rounding: of two steps, forward and backward, tightly; of all eight within what rounding alone does
# here, since windows of max pools that nearly tie send gradients elsewhere (reference in f32 against f64: 1.1e-2).
follows() { # RUN STEPS LIMIT PEER: the largest relative difference of its epochs' losses from those of PEER
    json "$1/result.json" "d[\"steps\"] == $2 and len(d[\"epochs\"]) == ($2 + 3) // 4"
    json "$1/result.json" "all(abs(a[\"train_loss\"] / b[\"train_loss\"] - 1) <= $3 for a, b in zip(d[\"epochs\"], json.load(open(\"$4/result.json\"))[\"epochs\"]))"
}
accepts "$dawn9" train levels.yaml --backend reference --precision f64 --set train.epochs=0.5 --out judge --quiet
for level in $ran; do
    accepts "$dawn9" train levels.yaml --set backend_options.cpu_level=$level --set train.epochs=0.5 --out short-$level --quiet
    follows short-$level 2 5e-6 judge
    follows $level 8 3e-2 plain
done

# ---- bf16 where loops and library multiply it, and only there ----
refuses 4 'precision bf16: .* has f32$' "$dawn9" train levels.yaml --precision bf16 --set backend_options.cpu_level=v2 --out x
case $ran in
*v4bf16*)
    accepts "$dawn9" train levels.yaml --precision bf16 --set backend_options.cpu_level=v4bf16 --out half --quiet
    json half/result.json 'd["precision"] == "bf16"'
    uses half bf16
    spares half amx
    follows half 8 3e-2 plain
    ;;
esac

# ---- several runs in one process; a level that does not exist ----
accepts "$dawn9" train levels.yaml --set backend_options.cpu_level=v2 --set train.epochs=1 --runs 2 --out many --quiet
refuses 2 'cpu_level: .*v5.*auto, plain, v2, v3, v4, v4bf16' "$dawn9" train levels.yaml --set backend_options.cpu_level=v5
verdict
