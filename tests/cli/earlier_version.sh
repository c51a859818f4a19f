# Files that 0.3.0 wrote (tests/fixtures/0.3.0) are still read: a configuration, the record and the model of its finished
# run, and the checkpoint of the same run interrupted in its fourth epoch. Chance is 10%, the run ended at 93%.
. "$(dirname "$0")/lib.sh"
mkdir half
cp -r "$source/tests/fixtures/0.3.0" first
chmod -R u+w first
mv first/checkpoint.safetensors half
near='abs(d["accuracy"] - result("first")["accuracy"])'

# Keys kept their meaning and defaults their value: the configuration's hash is that of the record.
printf 'config: first/config.yaml\narms: {same: {}}\n' >same.yaml
replies 'd["arms"][0]["config_hash"] == result("first")["config_hash"]' "$dawn9" experiment same.yaml --dry-run --json

accepts "$dawn9" eval first --json
json "$out" "$near"' < 1 and d["accuracy"] > 85'
prints 'One run: 93\.' "$dawn9" report first
accepts "$dawn9" export first first.onnx
accepts "$dawn9" data preview first/config.yaml --out sheet.png
accepts "$dawn9" predict first sheet.png

rejects 2 'another configuration' "$dawn9" train first/config.yaml --out half --resume --set train.momentum=0.8
accepts "$dawn9" train first/config.yaml --out half --resume --quiet
record half "$near"' < 5 and d["accuracy"] > 85 and d["resumed"]'
accepts "$dawn9" compare first half
verdict
