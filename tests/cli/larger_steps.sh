#!/bin/sh
# The commands on runs with steps of several batches (batch_schedule) and with training on hard images only
# (hard_examples).
. "$(dirname "$0")/lib.sh"
tiny | sed 's/^tricks: {/&batch_schedule: {from: [0, 0.75], batches: [2, 1]}, hard_examples: {widths: [2, 3, 4]}, /' >tiny.yaml

accepts "$dawn9" train tiny.yaml --out run
record run 'len(d["epochs"]) == 2 and d["train_teraflop"] > 0'
accepts "$dawn9" train tiny.yaml --precision f64 --out wide --runs 2
for what in step pipeline ops eval cold; do accepts "$dawn9" bench $what --config tiny.yaml; done
replies 'd["batch_size"] == 64 and d["images_per_second"] > 0' "$dawn9" bench step --config tiny.yaml --steps 40 --json
accepts "$dawn9" bench fit --config tiny.yaml --memory 8G --json
json "$out" 'd["rows"][0]["batch_size"] == 64 and d["rows"][0]["rejected"] == 65 and d["rows"][0]["limit"] == "rejected"' # 2 x 65 exceed the 128 images
# A batch of 104 images has 13 ghost groups. Training rejects it, because it trains on 64 of the images, which are not a
# multiple of 13.
narrow='--without batch_schedule --with hard_examples:share=0.62 --with ghost_batchnorm:group_size=8'
# shellcheck disable=SC2086 # several words
accepts "$dawn9" bench fit --config tiny.yaml $narrow --memory 8G --json
json "$out" 'd["rows"][0]["batch_size"] == 96 and d["rows"][0]["rejected"] == 104 and not d["rows"][0]["all_images"]'
# shellcheck disable=SC2086
prints '^f32 +96 .* training rejects 104$' "$dawn9" bench fit --config tiny.yaml $narrow --memory 8G
# shellcheck disable=SC2086
accepts "$dawn9" bench fit --config tiny.yaml $narrow --memory 4M --json
json "$out" '64 < d["rows"][0]["batch_size"] < 96 and d["rows"][0]["rejected"] is None and not d["rows"][0]["all_images"]'
# A batch may have all 128 images if the schedule's change rounds to the end of the run, or if no larger step fits.
for change in '--epochs 1 --with batch_schedule:from=[0.9],batches=[2]' '--epochs 1 --with batch_schedule:from=[0.5],batches=[2]' \
    '--epochs 3 --with batch_schedule:from=[0.9],batches=[2]' '--epochs 3 --with batch_schedule:from=[0.95],batches=[4]'; do
    # shellcheck disable=SC2086
    accepts "$dawn9" bench fit --config tiny.yaml --without hard_examples $change --memory 8G --json
    json "$out" 'd["rows"][0]["batch_size"] == 128 and d["rows"][0]["all_images"]'
done
# Batches of 43 to 64 are rejected for their number of steps; larger batches are found nevertheless.
accepts "$dawn9" bench fit --config tiny.yaml --without hard_examples --with 'batch_schedule:from=[0.8],batches=[3]' --memory 8G --json
json "$out" 'd["rows"][0]["batch_size"] == 128 and d["rows"][0]["all_images"] and d["rows"][0]["limit"] == "samples"'
# The recorded learning rate of an epoch is that at the start of its last step. In the first epoch that step begins at
# the third of four batches; in the second it is the fourth batch alone.
accepts "$dawn9" train tiny.yaml --set 'train.lr={knots: [0, end], values: [0.4, 0], at: start}' --out rate
sed -n 's/.*"learning_rate":\([0-9.]*\).*/\1/p' rate/events.jsonl >rates.txt
[ "$(tr '\n' ' ' <rates.txt)" = '0.3 0.05 ' ] || fail "rates of the epochs: $(cat rates.txt)"
accepts "$dawn9" eval run
accepts "$dawn9" export run run.onnx
grep -aq '"proxy\.' run/model.safetensors && fail "the small network is in the model"
accepts "$dawn9" config "$source/configs/folder.yaml" --with 'batch_schedule:from=[0],batches=[64]'
accepts "$dawn9" data preview tiny.yaml --out sheet.png --filters filters.png
accepts "$dawn9" predict run sheet.png
accepts "$dawn9" train tiny.yaml --find-lr --out rates
accepts "$dawn9" ablate tiny.yaml --seeds 1 --only batch_schedule,hard_examples --out ablation
rejects 2 'tricks.batch_schedule 5 4' "$dawn9" train tiny.yaml --set 'tricks.batch_schedule.batches=[5,1]'
rejects 2 'tricks.hard_examples' "$dawn9" train tiny.yaml --with mixup
verdict
