# Exported models have the same logits in ONNX Runtime as in dawn9 eval: every network of images, the baseline, dawn94's
# tricks, and texts with every recurrent cell. Language models have the perplexity of their record. Needs node, and
# onnxruntime-node where tests/run.sh --long installs it.
. "$(dirname "$0")/lib.sh"
export NODE_PATH="$source/build/onnxruntime/node_modules"
node -e 'require("onnxruntime-node")' 2>/dev/null || skips onnxruntime "no onnxruntime-node in build/onnxruntime"

tiny >baseline.yaml
dawn94_file
network_files
for name in baseline dawn94 $networks; do
    accepts "$dawn9" train $name.yaml --out $name --quiet
    accepts "$dawn9" eval $name.yaml $name/model.safetensors --logits $name.logits
    accepts "$dawn9" export $name/model.safetensors $name.onnx
    runs node "$source/tests/support/onnx.js" logits $name.onnx $name.logits
    says '^logits: 64 images, largest difference '
done
text_files
for cell in $cells; do
    accepts "$dawn9" train sentiment.yaml --data texts --out $cell --quiet --set model.cell=$cell --set model.layers=2
    accepts "$dawn9" eval $cell --data texts --logits $cell.logits
    accepts "$dawn9" export $cell $cell.onnx
    runs node "$source/tests/support/onnx.js" logits $cell.onnx $cell.logits
    says '^logits: 64 texts, largest difference '
done
stream_files
for cell in $cells; do
    run=$cell-stream
    stream_model $cell
    accepts "$dawn9" export $run $run.onnx
    accepts node "$source/tests/support/onnx.js" perplexity $run 3 5 8
done
observe node "$source/tests/support/onnx.js" logits baseline.onnx dawn94.logits
[ $status = 1 ] || fail "the logits of another model pass: status $status"
verdict
