# Input that would hang, mislead or do harm is rejected in one line, or shown as harmless text.
. "$(dirname "$0")/lib.sh"
tiny >tiny.yaml
at_once() { # reading a FIFO without a writer, or an endless device, would never end
    command -v timeout >/dev/null && set -- timeout 120 "$@"
    "$@"
}
accepts "$dawn9" train tiny.yaml --out run --set train.epochs=0.5 --quiet

# ---- FIFOs and devices in place of files ----
draw drawn bars=2 disc=2
mkfifo pipe pipe.yaml pipe.png drawn/bars/x.png
rejects 2 'pipe.yaml' at_once "$dawn9" config pipe.yaml
rejects 2 '/dev/zero' at_once "$dawn9" train /dev/zero
printf 'base: /dev/zero\n' >zero.yaml
rejects 2 'zero.yaml:1:7 /dev/zero' at_once "$dawn9" config zero.yaml
rejects 3 'drawn/bars/x.png' at_once "$dawn9" train "$source/configs/folder.yaml" --data drawn --out never --set threads=1
rejects 3 'pipe.png' at_once "$dawn9" predict run pipe.png
rejects 3 'pipe' at_once "$dawn9" predict pipe drawn/bars/00.png
rejects 3 'pipe' at_once "$dawn9" eval pipe
rejects 3 'pipe' at_once "$dawn9" export pipe model.onnx
rejects 3 'pipe' at_once "$dawn9" train tiny.yaml --out never --plan pipe
rm drawn/bars/x.png

# ---- images whose header states too many pixels; memory of decoding ----
python3 - <<'PYTHON' || fail "the pictures could not be made"
import struct, zlib
def png(path, side, rows):
    def chunk(kind, data): return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    body = zlib.compress(rows, 1)
    open(path, "wb").write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 16, 6, 0, 0, 0)) +
                           chunk(b"IDAT", body) + chunk(b"IEND", b""))
png("large.png", 2000, bytes(2000 * (1 + 2000 * 8)))
png("small.png", 2, bytes(2 * (1 + 2 * 8)))
png("huge.png", 12000, b"")
png("bomb.png", 2, bytes(100000000))
PYTHON
rejects 3 'huge.png 12000 144.0 64 data.largest_picture' "$dawn9" predict run huge.png
cp large.png drawn/bars/
folder="--data drawn --set train.epochs=0.5 --set train.batch_size=2 --set threads=1 --set backend=reference --set precision=f32 --quiet"
folder="$folder --set model.channels=[4,4,4,4] --set data.image_size=16 --set eval.every=0"
# shellcheck disable=SC2086 # one word per option
rejects 3 'drawn/bars/large.png 2000 4.0 3' \
    "$dawn9" train "$source/configs/folder.yaml" --out never $folder --set data.largest_picture=3
python3 - "$dawn9" 2>"$err" <<'PYTHON' || fail "decoding takes more memory than it may"
import os, subprocess, sys
def peak(picture):
    child = subprocess.Popen([sys.argv[1], "predict", "run", picture, "--threads", "1"], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(child.pid, 0)
    return usage.ru_maxrss * 1024, status
(least, _), (most, status), (bomb, _) = peak("small.png"), peak("large.png"), peak("bomb.png")
assert status == 0, status
assert most - least < 6 * 2000 * 2000 + 8e6, (least, most)  # twice the picture in RGB
assert bomb - least < 8e6, (least, bomb)                    # the header says two pixels by two
PYTHON

# ---- configurations: too many keys, too many bytes; config and train report the same errors ----
python3 -c 'for i in range(100000): print("k%d: 1" % i)' >many.yaml
rejects 2 'many.yaml:1025:1 1024' at_once "$dawn9" config many.yaml
head -n 1000 many.yaml >thousand.yaml
rejects 2 'thousand.yaml:1:1 k0' at_once "$dawn9" config thousand.yaml
head -c 1100000 /dev/zero | tr '\0' '#' >long.yaml
rejects 2 'long.yaml 1 MiB' "$dawn9" config long.yaml
both() { # PATTERN OPTION...
    pattern=$1
    shift
    rejects 2 "$pattern" "$dawn9" train tiny.yaml --out never "$@"
    cp "$err" rejected
    rejects 2 "$pattern" "$dawn9" config tiny.yaml "$@"
    same rejected "$err" "config says it otherwise: $(cat rejected)"
}
both 'train.epochs 0.1 4' --set train.epochs=0.1
both 'train.batch_size 1000 128' --set train.batch_size=1000
both 'data.validation 128 0 127' --set data.validation=128
both 'data.image_size 4 8' --set data.image_size=4
both 'data.fit folder' --set data.fit=crop
both 'ghost' --with ghost_batchnorm:group_size=7
both 'patch_whitening.size 2' --with patch_whitening:size=2
both '15' --set tricks.crop.pad=16

# ---- models: a number that is not finite, a variance below zero, a configuration that inherits ----
spoil() { # NAME VALUE: bad.safetensors is the model with VALUE as first number of tensor NAME, or as metadata NAME
    accepts python3 "$source/tests/support/tensorfile.py" run/model.safetensors bad.safetensors "$1" "$2"
}
damaged() { # NAME VALUE PATTERN
    spoil "$1" "$2"
    rejects 3 "bad.safetensors $3" at_once "$dawn9" eval bad.safetensors
    rejects 3 "bad.safetensors $3" at_once "$dawn9" eval tiny.yaml bad.safetensors
    rejects 3 "bad.safetensors $3" at_once "$dawn9" export bad.safetensors model.onnx
    rejects 3 "bad.safetensors $3" at_once "$dawn9" predict bad.safetensors drawn/bars/00.png
}
damaged stem.conv.weight nan 'stem.conv.weight -?nan'
damaged head.weight inf 'head.weight inf'
damaged stem.norm.running_var -0.5 'stem.norm.running_var -0.5'
LC_ALL=C sed 's/"head.weight"/"neck.weight"/' run/model.safetensors >bad.safetensors
for command in 'eval bad.safetensors' 'export bad.safetensors model.onnx' 'predict bad.safetensors drawn/bars/00.png'; do
    # shellcheck disable=SC2086 # one word per argument
    rejects 2 'bad.safetensors head.weight 10,' at_once "$dawn9" $command
done
LC_ALL=C sed 's/\\"disc\\"/\\"disk\\"/' run/model.safetensors >bad.safetensors # the name of a class
rejects 3 'bad.safetensors class 0 disk disc' "$dawn9" eval bad.safetensors
runs "$dawn9" eval tiny.yaml bad.safetensors
warns 'bad.safetensors: class 0 is disk, .* disc$'
spoil dawn9.config 'newthing: 3' # of a newer dawn9
accepts python3 "$source/tests/support/tensorfile.py" bad.safetensors newer.safetensors dawn9.version 9.8.7
for command in eval 'eval tiny.yaml' export generate predict; do
    # shellcheck disable=SC2086 # one word per argument
    rejects 3 'newer.safetensors dawn9.config:1:1 newthing 9.8.7' at_once "$dawn9" $command newer.safetensors \
        $(case $command in predict) echo drawn/bars/00.png ;; export) echo model.onnx ;; esac)
done
spoil dawn9.config 'base: /dev/zero'
for command in 'eval bad.safetensors' 'export bad.safetensors model.onnx' 'predict bad.safetensors drawn/bars/00.png'; do
    # shellcheck disable=SC2086 # one word per argument
    rejects 3 'bad.safetensors dawn9.config' at_once "$dawn9" $command
done

# ---- control characters in files are shown as text, never sent to the terminal ----
reverse=$(printf '\342\200\256') # U+202E reverses the text after it
has_control_characters() { # FILE...: true if one has a control character or U+202E
    LC_ALL=C grep -q "$(printf '[\001-\011\013-\037\177]')" "$@" || LC_ALL=C grep -q "$(printf '\302[\200-\237]')" "$@" ||
        grep -q "$reverse" "$@"
}
classes='["\u001b[2J\nfirst", "b\u009b2J", "c\u202e", "d\u2066", "e", "f", "g", "h", "i", "j"]'
spoil dawn9.classes "$classes"
odd=$(printf 'drawn/bars/\033[2J\n%s.png' "$reverse")
cp drawn/bars/00.png "$odd"
accepts "$dawn9" predict bad.safetensors "$odd" --top 10
has_control_characters "$out" && fail "predict obeys what a file says"
lines_are 1 "$out"
says '^drawn/bars/.x1b\[2J.x0a.u202e.png  ' '  .x1b\[2J.x0afirst +[0-9.]+%' '  b.x9b2J +[0-9.]+%' '  c.u202e +[0-9.]+%' \
    '  d.u2066 +[0-9.]+%'
cp -r run shown
sed -i 's/"backend": "[a-z]*"/"backend": "\\u001b[2J\\nx"/' shown/result.json
accepts "$dawn9" compare run shown
has_control_characters "$out" && fail "compare obeys what a file says"
says 'x1b\[2J.x0ax'
sed -i 's/"disc"/"di\\u202esc"/; s/"title": "tiny"/"title": "ti\\u2066ny"/' shown/result.json
accepts "$dawn9" report shown
grep -q 'di.u202esc' shown/report.html && grep -q '<h1>ti.u2066ny</h1>' shown/report.html && ! grep -q "$reverse" shown/report.html ||
    fail "a report's page obeys what a file says"
printf '"\\e[2J\\n\\x9b": 1\n' >odd.yaml
rejects 2 'odd.yaml:1:1' "$dawn9" config odd.yaml
has_control_characters "$err" && fail "a message obeys what a file says"
printf 'title: "a\\e[2J\\x9b\\u202e"\n' >odd.yaml
accepts "$dawn9" config odd.yaml
has_control_characters "$out" && fail "config obeys what a file says"
says '^title: "a.x1b\[2J.x9b.u202e"$'

# ---- impossible records ----
impossible() { # SED PATTERN
    rm -rf lies && mkdir lies && cp -r run lies/one && cp -r run lies/two
    sed -i "$1" lies/one/result.json
    differ run/result.json lies/one/result.json "$1 changes nothing"
    rejects 3 "lies/one/result.json $2" "$dawn9" compare run lies/one
    observe "$dawn9" report lies
    grep -q "one/result.json: " "$out" "$err" || fail "report takes $1: $(cat "$out" "$err")"
}
impossible 's/"accuracy": [0-9.]*/"accuracy": 150/' 'accuracy 0 100'
impossible 's/"accuracy_tta": [0-9.]*/"accuracy_tta": -1.5/' 'accuracy 0 100'
impossible 's/"train_seconds": [0-9.]*/"train_seconds": -1/' 'time|speed'
impossible 's/"seed": 1,/"seed": -1,/' 'seed|count|epoch'
impossible 's/"steps": [0-9]*/"steps": 0.5/' 'seed|count|epoch'
impossible 's/"epoch": 1/"epoch": "last"/' 'seed|count|epoch'
impossible 's/"timeline": \[/"timeline": [3, /' 'epochs timeline'

# ---- a file that exceeds the limit on file sizes is a write error; no signal ends the program ----
limited() { (ulimit -f 8 && "$dawn9" train tiny.yaml --out limited --quiet); }
ends 6 'limited/.*' limited
verdict
