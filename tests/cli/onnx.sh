# Models exported by dawn9 export have the same logits in ONNX Runtime as in dawn9 eval, for every network, for the
# baseline and with every trick that changes a model. Needs node, and onnxruntime-node where tests/run.sh --long
# installs it.
. "$(dirname "$0")/lib.sh"
export NODE_PATH="$source/build/onnxruntime/node_modules"
node -e 'require("onnxruntime-node")' 2>/dev/null || skips onnxruntime "no onnxruntime-node in build/onnxruntime"

small() { tiny; }
small >baseline.yaml
{
    small | sed '/^tricks/d; /^model/d; s/batch_size: 32/bias_lr_multiplier: 4, &/'
    echo 'model: {name: resnet9, channels: [4, 6, 8, 10], logits_scale: 0.5}'
    echo 'tricks: {crop: {pad: 4}, flip: {}, pool_before_activation: {position: before_norm}, label_smoothing: {}, celu: {alpha: 0.3},'
    echo '  ghost_batchnorm: {group_size: 8}, frozen_bn_scale: {scale: 0.8}, patch_whitening: {images: 100},'
    echo '  ema: {momentum: 0.9, every: 2}}'
} >dawn94.yaml
network_files
for name in baseline dawn94 $networks; do
    accepts "$dawn9" train $name.yaml --out $name --quiet
    accepts "$dawn9" eval $name.yaml $name/model.safetensors --logits $name.logits
    accepts "$dawn9" export $name/model.safetensors $name.onnx
    runs node "$source/tests/support/onnx_logits.js" $name.onnx $name.logits
    says '^logits: 64 images, largest difference '
done
observe node "$source/tests/support/onnx_logits.js" baseline.onnx dawn94.logits
[ $status = 1 ] || fail "the logits of another model pass: status $status"
verdict
