# Each CPU level that this machine has: whole runs with our kernels, and with oneDNN restricted to the level, have the
# same losses up to rounding.
. "$(dirname "$0")/lib.sh"
[ "$(uname -m)" = x86_64 ] || skips x86-64 "$(uname -m) has no such levels"
tiny | slower | sed 's/backend: reference/backend: cpu/; s/\[4, 4, 8, 8\]/[16, 16, 32, 32]/; s/train: 128/train: 64/; s/test: 64/test: 32/; s/batch_size: 32/batch_size: 16/' >levels.yaml
# expect RUN EXPRESSION...: each expression must hold for RUN's result `d`; the end of this script evaluates all at once
expect() {
    run=$1
    shift
    for expression in "$@"; do printf '%s\t%s\n' "$run" "$expression" >>expected; done
}
train_at_level() { # BACKEND LEVEL OUT [OPTION...]
    backend=$1 level=$2 folder=$3
    shift 3
    "$dawn9" train levels.yaml --backend "$backend" --set backend_options.cpu_level="$level" --out "$folder" --quiet "$@"
}

# ---- f32 at each level; a level that this processor lacks is an error ----
ran=
for level in plain avx2 avx512 avx512-bf16 amx; do
    observe train_at_level cpu $level $level
    if [ $status = 4 ]; then
        has "$err" "cpu_level $level: .*(plain|avx)"
        continue
    fi
    [ $status = 0 ] || fail "$level: status $status"
    ran="$ran $level"
    expect $level 'd["config"]["backend_options"]["cpu_level"] == "'$level'"' 'd["isa"] == "'$level'"'
done
case $ran in *" plain"*) ;; *) fail "only$ran ran" ;; esac

# v3, v4 and v4bf16 are other names of avx2, avx512 and avx512-bf16.
for pair in v3=avx2 v4=avx512 v4bf16=avx512-bf16; do
    case "$ran " in *" ${pair#*=} "*) ;; *) continue ;; esac
    accepts train_at_level cpu ${pair%=*} ${pair%=*} --set train.epochs=0.5
    expect ${pair%=*} 'd["isa"] == "'${pair#*=}'"'
done

# Names of oneDNN's algorithms contain their instruction set ("jit:avx2"): in f32 none is beyond the level, and from avx2 on
# some use the best within it.
choices='[rule["choice"] for rule in d["rules"]]'
uses() { expect "$1" "any(\"$2\" in c for c in $choices)"; }
avoids() { expect "$1" "len($choices) > 30 and not any(\"$2\" in c for c in $choices)"; }
peers=
case $(cpu_backends) in *onednn*) peers=$ran ;; esac
for level in $peers; do
    accepts train_at_level onednn $level onednn-$level
    case $level in
    plain) avoids onednn-$level avx ;;
    avx2) uses onednn-$level avx2; avoids onednn-$level avx512 ;;
    *) uses onednn-$level avx512; avoids onednn-$level amx ;;
    esac
done
if [ "$peers" ]; then
    accepts train_at_level onednn auto auto --set train.epochs=0.5 # must not exceed the processor's level
    case $ran in *avx512*) uses auto avx512 ;; *avx2*) uses auto avx2; avoids auto avx512 ;; esac
fi

# The losses agree up to rounding: closely after two steps, and after all eight within the effect of rounding, because
# near-ties in max pools send gradients to other pixels (losses of the reference in f32 and in f64 differ by 1.1e-2).
follows() { # RUN STEPS LIMIT PEER: LIMIT is the largest relative difference of the epochs' losses of RUN and PEER
    expect $1 "d[\"steps\"] == $2 and len(d[\"epochs\"]) == ($2 + 3) // 4" \
        "all(abs(a[\"train_loss\"] / b[\"train_loss\"] - 1) <= $3 for a, b in zip(d[\"epochs\"], result(\"$4\")[\"epochs\"]))"
}
accepts "$dawn9" train levels.yaml --backend reference --precision f64 --set train.epochs=0.5 --out judge --quiet
for level in $ran; do
    accepts train_at_level cpu $level short-$level --set train.epochs=0.5
    follows short-$level 2 5e-6 judge
    follows $level 8 3e-2 plain
done
for level in $peers; do
    accepts train_at_level onednn $level short-onednn-$level --set train.epochs=0.5
    follows short-onednn-$level 2 5e-6 judge
    follows onednn-$level 8 3e-2 plain
done

# ---- bf16 with our kernels at each level, and with oneDNN at avx512-bf16 ----
half() { # BACKEND LEVEL
    accepts train_at_level "$1" "$2" "half-$1-$2" --precision bf16
    expect half-$1-$2 'd["precision"] == "bf16"'
    follows "half-$1-$2" 8 3e-2 plain
}
# A convolution fused with its pool gives the same bits as the two operations one by one. At level amx oneDNN's
# convolutions may be the first choice, and they do not pool.
pooled() { # LEVEL
    accepts train_at_level cpu "$1" "pooled-$1" --precision bf16 --with pool_before_activation
    accepts train_at_level cpu "$1" "single-$1" --precision bf16 --with pool_before_activation \
        --set backend_options.fuse=false
    [ "$1" = amx ] || expect "pooled-$1" 'any(rule["rule"] == "conv+pool" for rule in d["rules"])'
    expect "single-$1" 'not any("+" in rule["rule"] for rule in d["rules"])'
    same_bits "pooled-$1" "single-$1"
}
for level in $ran; do
    half cpu $level
    pooled $level
    case $level in *bf16) avoids half-cpu-$level amx ;; esac
done
if [ "$peers" ]; then
    rejects 4 'bf16 f32' train_at_level onednn plain x --precision bf16
    case $ran in
    *avx512-bf16*)
        half onednn avx512-bf16
        uses half-onednn-avx512-bf16 bf16
        avoids half-onednn-avx512-bf16 amx
        ;;
    esac
fi

# ---- precision: auto takes bf16 at levels that multiply it, for networks that lose at most 0.1 points ----
chooses() { # LEVEL NETWORK PRECISION WHY
    accepts "$dawn9" train levels.yaml --backend cpu --set backend_options.cpu_level="$1" --set "model={name: $2}" \
        --set data.image_size=32 --epochs 0.25 --precision auto --out "auto-$1-$2"
    expect "auto-$1-$2" 'd["precision"] == "'"$3"'"'
    case $4 in '') hides '^precision ' ;; *) says "^precision +$4" ;; esac
}
for level in $ran; do
    case $level in
    *bf16 | amx)
        chooses $level airbench bf16 'bf16 cost airbench at most 0\.[0-9]+ points'
        chooses $level resnet f32 'bf16 is faster, but may cost resnet 0\.[0-9]+ points'
        chooses $level vgg f32 'bf16 is faster, but .* not compared .* vgg$'
        replies '"airbench" in next(b["preferred_for"] for b in d if b["backend"] == "cpu")' "$dawn9" devices --json
        ;;
    *) chooses $level airbench f32 '' ;;
    esac
done

# ---- several runs in one process; an unknown level ----
accepts train_at_level cpu plain many --set train.epochs=1 --runs 2
# oneDNN accepts one level per process: the backend onednn rejects another, and the backend cpu does without oneDNN.
case $ran in *avx2*)
    for levels in plain,avx2 avx2,plain; do
        for backend in cpu ${peers:+onednn}; do
            printf '%s\n' 'title: levels' 'config: levels.yaml' 'seeds: 1' "set: {train.epochs: 0.25, backend: $backend}" \
                "grid: {backend_options.cpu_level: [$levels]}" >several.yaml
            observe "$dawn9" experiment several.yaml --out "$backend-$levels" --json
            json "$out" "d['failed'] == ('$backend' == 'onednn')"
        done
    done
    ;;
esac
rejects 2 'cpu_level v5 auto plain avx2 avx512 avx512-bf16 amx v3 v4 v4bf16' train_at_level cpu v5 x

asserts <<'PYTHON'
rows = [line.rstrip("\n").split("\t") for line in open("expected")]
wrong = [row for row in rows if not eval(row[1], {**globals(), "d": result(row[0])})]
assert not wrong and len(rows) >= 20, wrong
PYTHON
verdict
