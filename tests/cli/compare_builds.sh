# tests/compare_builds.py notices a flipped bit in any tensor of a run, for a run with every optional buffer and for one
# with none. The comparison of two builds itself is run by hand.
. "$(dirname "$0")/lib.sh"
compare="/usr/bin/env python3 $source/tests/compare_builds.py"

tiny | sed 's/epochs: 2/epochs: 3/' >plain.yaml # 12 steps
{
    sed '/^precision/d; /^tricks/d; /^model/d' plain.yaml
    echo 'precision: fp16'
    echo 'model: {name: resnet9, channels: [4, 6, 8, 10]}'
    echo 'tricks: {crop: {pad: 4}, flip_tta: {}, ghost_batchnorm: {group_size: 8}, frozen_bn_scale: {},'
    echo '  patch_whitening: {images: 100}, ema: {momentum: 0.9, every: 2}}'
} >tricks.yaml
for name in plain tricks; do
    accepts "$dawn9" train $name.yaml --set keep=all --out $name --quiet
    accepts "$dawn9" eval $name --logits $name/logits.safetensors
    accepts $compare --self-check $name
    says '^self-check: a flipped bit in each of [0-9]+ tensors: noticed$'
done

# ---- a run that is not one of 12 steps ----
accepts "$dawn9" train plain.yaml --set keep=all --set train.epochs=2 --out short --quiet
observe $compare --self-check short
[ $status = 1 ] && grep -q 'the checkpoint is of step 8, not 12' "$err" || fail "status $status, 1 expected"

# ---- no builds ----
observe $compare . . both
[ $status = 1 ] && grep -q 'CMakeCache.txt' "$err" || fail "status $status, 1 expected"
verdict
