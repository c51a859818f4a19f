# What the first versions wrote (tests/fixtures/first-release) is still read, or refused with the version that wrote it.
. "$(dirname "$0")/lib.sh"
cp -r "$source/tests/fixtures/first-release" before
chmod -R u+w before
cd before || exit 1
json 0.1.0/first/result.json 'd["accuracy"] == 6.25'

# warned STATUS PATTERN COMMAND...: this status, and standard error ends with a line that matches. Keys that have gone since
# are warnings before it.
warned() {
    expected=$1 pattern=$2
    shift 2
    observe "$@"
    [ $status = "$expected" ] || fail "status $status, $expected expected: $*"
    tail -n 1 "$err" | grep -Eq -- "$pattern" || fail "standard error does not end with '$pattern': $*"
}

# ---- as the first release writes them ----

accepts "$dawn9" eval 0.1.0/first
says '^accuracy 6.25% plain, 6.25% with TTA'
accepts "$dawn9" eval 0.1.0/first/model.safetensors
accepts "$dawn9" export 0.1.0/first/model.safetensors model.onnx
accepts "$dawn9" export 0.1.0/first/model.safetensors described.safetensors
grep -q dawn9.graph 0.1.0/first/model.safetensors && fail "the first release described its networks"
grep -q BatchNormalization described.safetensors || fail "no description of the network"
accepts "$dawn9" eval described.safetensors
says '^accuracy 6.25% plain, 6.25% with TTA'
accepts "$dawn9" data preview 0.1.0/tiny.yaml --out sheet.png
accepts "$dawn9" predict 0.1.0/first sheet.png
accepts "$dawn9" report 0.1.0/first
says 'One run: 6.25%'
accepts "$dawn9" train 0.1.0/half/config.yaml --out 0.1.0/half --resume --quiet
json 0.1.0/half/result.json 'd["resumed"] and d["config"]["train"]["epochs"] == 100'
[ ! -e 0.1.0/half/checkpoint.safetensors ] || fail "a checkpoint outlived its run"
accepts "$dawn9" train 0.1.0/first/config.yaml --out 0.1.0/first --resume

# ---- older ones ----

# A record, and a model with its configuration.
accepts "$dawn9" report 4ec22a0/first
says 'One run: 6.25%'
accepts "$dawn9" compare 4ec22a0/first 0.1.0/first
says 'accuracy +6.25 +6.25'
accepts "$dawn9" eval 4ec22a0/tiny.yaml 4ec22a0/first/model.safetensors
says '^accuracy 6.25% plain, 6.25% with TTA'
warned 0 'data.placement: is a key of earlier versions' "$dawn9" eval 4ec22a0/first/config.yaml 4ec22a0/first/model.safetensors
says '^accuracy 6.25% plain, 6.25% with TTA'

# What cannot be read says who wrote it.
model='a model of dawn9 0.1.0 before commit 0b5d5c9; dawn9 eval CONFIG MODEL reads it$'
refuses 3 "$model" "$dawn9" eval 4ec22a0/first
refuses 3 "$model" "$dawn9" predict 4ec22a0/first sheet.png
refuses 3 "$model" "$dawn9" export 4ec22a0/first/model.safetensors old.onnx
before=$(listing)
warned 2 'is a dawn9 checkpoint 1 of dawn9 0.1.0 before commit bd6cd8a, this version reads dawn9 checkpoint 4' \
    "$dawn9" train 4ec22a0/half/config.yaml --out 4ec22a0/half --resume
[ "$before" = "$(listing)" ] || fail "a refused resume left or took files"
verdict
