# Included by all command-line tests except docs.sh: . "$(dirname "$0")/lib.sh"
# usage: sh NAME.sh DAWN9 SOURCE_DIR. A check that fails prints a line, and up to five lines of the last command's
# standard error; the exit status of the script is the verdict.
set -u
dawn9=$1 source=$2
case $dawn9 in /*) ;; *) dawn9=$PWD/$dawn9 ;; esac
# A script with cifar10 in its name needs the data set; $data is its folder.
case $0 in
*cifar10*)
    data=$("$dawn9" data check cifar10 --json 2>/dev/null) ||
        { echo "skipped: cifar10: it is not there; ./setup.sh --data gets it"; exit 77; }
    data=$(echo "$data" | python3 -c 'import json, os, sys; print(os.path.abspath(json.load(sys.stdin)["path"]))')
    ;;
esac
scratch=$(mktemp -d -t dawn9-cli.XXXXXX) || exit 1
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/work" "$scratch/home" "$scratch/bin" && cd "$scratch/work" || exit 1
out=$scratch/out err=$scratch/err
checks=0 failures=0
# Hides settings and files of the machine that runs the tests.
unset DAWN9_DATA DAWN9_CASES XDG_CACHE_HOME NO_COLOR
export HOME="$scratch/home" OMP_WAIT_POLICY=passive
# Two programs take long to start. A link to /usr/bin/python3 replaces the python3 of a version manager; gnuplot is
# hidden where no plot is judged. plots: brings gnuplot back; status 0 if it is installed.
no_plots() { ln -sf /bin/false "$scratch/bin/gnuplot"; }
plots() { rm -f "$scratch/bin/gnuplot" && command -v gnuplot >/dev/null || omits gnuplot "not installed"; }
no_plots && PATH=$scratch/bin:$PATH
[ ! -x /usr/bin/python3 ] || ln -s /usr/bin/python3 "$scratch/bin/python3"
export PYTHONPATH="$source/tests/support" PYTHONDONTWRITEBYTECODE=1 # tensorfile.py, tfevents.py
python3() { command python3 -S "$@"; } # starts faster without the packages of the system, which no check needs

fail() {
    failures=$((failures + 1))
    echo "FAILED: $*"
    sed 's/^/    stderr: /' "$err" | head -n 5
}

# skips REASON WHY...: ends a script that cannot run here. tests/run.sh reads the line and lists the reasons CI accepts.
skips() {
    reason=$1
    shift
    echo "skipped: $reason: $*"
    exit 77
}
# omits REASON WHY...: says that the script goes on without a part that cannot run here; status 1, for `if ... || omits`.
# tests/run.sh counts it as a skipped test within this one.
omits() {
    reason=$1
    shift
    printf 'skipped: %s: %s\n[  SKIPPED ] %s\n' "$reason" "$*" "$reason"
    return 1
}
# The CPU backends of this build: onednn only if its library is installed.
cpu_backends() { "$dawn9" devices | sed -n '/absent/d; s/^\(cpu\|onednn\) .*/\1/p'; }

# ask NAME ARGUMENT...: status 0 if this function of tests/support/checker.py returns true. One process answers all,
# because to start Python takes as long as ten small commands; so checks in the background may not ask.
ask() {
    if [ ! -p "$scratch/ask" ]; then
        mkfifo "$scratch/ask" "$scratch/answer"
        (exec python3 -S "$source/tests/support/checker.py" "$scratch" $$ >"$scratch/checker" 2>&1 &)
    fi
    printf '%s\0' "$PWD" "$@" >"$scratch/ask"
    read -r _answer <"$scratch/answer"
    [ "$_answer" = yes ]
}

# ---- running commands ----

# Runs the command; standard output and error go to $out and $err, its status to $status.
observe() {
    checks=$((checks + 1))
    "$@" >"$out" 2>"$err" </dev/null
    status=$?
}

# accepts COMMAND...: status 0, and nothing on standard error.
accepts() {
    observe "$@"
    [ $status = 0 ] || fail "status $status, 0 expected: $*"
    [ ! -s "$err" ] || fail "standard error is not empty: $*"
}

# runs COMMAND...: status 0, with any output on standard error.
runs() {
    observe "$@"
    [ $status = 0 ] || fail "status $status, 0 expected: $*"
}

# complains STATUS WORDS COMMAND...: this status, and exactly one line on standard error, which begins "dawn9: " and holds
# each of the words (regular expressions, divided by spaces): places, keys, values and numbers, in any order.
complains() {
    _expected=$1 _words=$2
    shift 2
    observe "$@"
    [ $status = "$_expected" ] || fail "status $status, $_expected expected: $*"
    ask complaint "$_words" || fail "standard error is not one line with '$_words': $*"
}
# ends STATUS WORDS COMMAND...: as `complains`, and no half-written file stays.
ends() {
    complains "$@"
    ask has_no_partial_file || fail "half-written files: $(find . -name '*.part*')"
}
listing() { find . | LC_ALL=C sort; }
# rejects STATUS WORDS COMMAND...: as `complains`, and no file was added or removed.
rejects() {
    ask remember_files
    complains "$@"
    ask as_before || fail "files appeared or went: $*"
}

# has FILE PATTERN...: each pattern matches a line of the file. lacks FILE PATTERN...: none does.
has() {
    _file=$1
    shift
    for _pattern in "$@"; do grep -Eq -- "$_pattern" "$_file" || fail "${_file#"$scratch/"} does not match '$_pattern'"; done
}
lacks() {
    _file=$1
    shift
    for _pattern in "$@"; do
        grep -Eq -- "$_pattern" "$_file"
        [ $? = 1 ] || fail "${_file#"$scratch/"} matches '$_pattern'"
    done
}
# says, hides PATTERN...: as `has` and `lacks`, of standard output. warns TEXT...: standard error has each warning.
says() { has "$out" "$@"; }
hides() { lacks "$out" "$@"; }
warns() { for _warning in "$@"; do has "$err" "^dawn9: warning: $_warning"; done; }

# prints PATTERN COMMAND...: accepts the command, and its output matches the pattern.
prints() {
    _output=$1
    shift
    accepts "$@"
    says "$_output"
}

# count_is NUMBER PATTERN [FILE]: NUMBER lines of the file, by default standard output, match the pattern.
count_is() {
    _count=$(grep -Ec -- "$2" "${3-$out}")
    [ "$_count" = "$1" ] || fail "$_count lines match '$2', $1 expected: $(head -n 20 "${3-$out}")"
}
# lines_are NUMBER FILE
lines_are() { count_is "$1" '' "$2"; }
# is TEXT TEXT [WHAT]: the texts are equal.
is() { [ "$1" = "$2" ] || fail "${3-}: '$1', '$2' expected"; }
# same A B [WHAT], differ A B [WHAT]: the files have the same bytes, or not.
same() { cmp -s "$1" "$2" || fail "${3-$1 is not $2}"; }
differ() {
    cmp -s "$1" "$2"
    [ $? = 1 ] || fail "${3-$1 is $2}"
}

# json FILE EXPRESSION...: checks a JSON file without jq. Each expression is Python and must hold; `d` is the content of
# the file, result(FOLDER) the record of a run; json is imported.
json() {
    _file=$1
    shift
    checks=$((checks + $#))
    ask holds "$_file" "$@" || fail "$_file: $*"
}
# replies EXPRESSION COMMAND...: accepts the command, and the expression holds for the JSON that it prints.
replies() {
    _expression=$1
    shift
    accepts "$@"
    json "$out" "$_expression"
}
# record RUN EXPRESSION...: as `json`, of the run's result.json.
record() {
    _run=$1
    shift
    json "$_run/result.json" "$@"
}
# asserts ARGUMENT...: runs the Python script on standard input, which may use json, sys, result(FOLDER) and tensorfile's
# read; its assertions must hold.
asserts() {
    checks=$((checks + 1))
    python3 -c 'import json, sys
from tensorfile import read
def result(run): return json.load(open(run + "/result.json"))
exec(compile(sys.stdin.read(), "asserts", "exec"))' "$@" >"$out" 2>"$err" || fail "asserts $*: $(tail -n 1 "$err")"
}
digests_of() { # RUN...: prints the digests of the runs' parameters, a line each
    for _run in "$@"; do set -- "$@" "$_run/result.json" && shift; done
    grep -ho '"params_sha256": "[0-9a-f]\{64\}"' "$@"
}
# same_bits RUN RUN...: checks that the runs ended with the same parameters. other_bits RUN RUN: with different ones.
same_bits() {
    checks=$((checks + 1))
    digests_of "$@" | awk -v runs=$# '{ n++ } n > 1 && $0 != last { exit } { last = $0; same++ } END { exit same != runs }' ||
        fail "other parameters: $*"
}
other_bits() {
    checks=$((checks + 1))
    [ "$(digests_of "$@" | sort -u | wc -l)" = $# ] || fail "the same parameters: $*"
}

# ---- signals ----

# until_written FILE PROCESS: waits until a child has written the file or has ended.
until_written() { until [ -s "$1" ] || ! kill -0 "$2" 2>/dev/null; do sleep 0.05; done; }
# until_catching PROCESS: waits until dawn9, started in the background with SIGINT ignored, handles it, or has ended.
until_catching() {
    while kill -0 "$1" 2>/dev/null; do
        case $(grep -E '^(Name|SigCgt):' "/proc/$1/status" 2>/dev/null) in
        *"${dawn9##*/}"*[2367abef]) break ;; # bit 1 of the mask
        esac
        sleep 0.05
    done
}
# begin FILE COMMAND...: starts the command in the background as process $child, and waits until it has written the
# file.
begin() {
    _file=$1
    shift
    "$@" &
    child=$!
    until_written "$_file" $child
}
# signalled SIGNAL FILE COMMAND...: the command gets the signal once it has written the file.
signalled() {
    _signal=$1
    shift
    begin "$@"
    kill -s "$_signal" $child
    wait $child
}

# Prints the totals and ends the script with the verdict as its status.
verdict() {
    echo "$checks checks, $failures failed"
    [ $failures = 0 ] && [ $checks -gt 0 ]
    exit
}

# tiny: prints a configuration small enough for plain loops on one thread. slower: doubles the height and width of its
# images, for runs that must last until they are interrupted.
slower() { sed 's/image_size: 16/image_size: 32/'; }
tiny() {
    cat <<'YAML'
target: 5
backend: reference
precision: f32
threads: 1
model: {name: resnet9, channels: [4, 4, 8, 8]}
data: {dataset: synthetic, image_size: 16, synthetic_train: 128, synthetic_test: 64}
train: {epochs: 2, batch_size: 32, lr: {knots: [0, 50%, end], values: [0, 0.4, 0]}}
tricks: {crop: {pad: 4}, flip: {}, flip_tta: {}}
YAML
}

# draw FOLDER CLASS=COUNT...: draws pictures into class folders.
draw() { python3 "$source/tools/draw_pictures.py" "$@" || fail "the pictures could not be drawn"; }

# drawn_file EPOCHS BATCH TRICKS: writes small.yaml, a network for folders of drawn pictures (tools/draw_pictures.py).
drawn_file() {
    cat >small.yaml <<YAML
target: 80
backend: reference
precision: f32
threads: 1
model: {name: resnet9, channels: [4, 8, 8, 16], logits_scale: 0.5}
data: {dataset: folder, image_size: 16}
eval: {every: 0}
train: {epochs: $1, batch_size: $2, lr: {knots: [0, 20%, end], values: [0, 0.2, 0]}}
tricks: {pool_before_activation: {}, $3}
YAML
}

# dawn94_file: writes dawn94.yaml, tiny() with dawn94's tricks.
dawn94_file() {
    {
        tiny | sed '/^tricks/d; /^model/d; s/batch_size: 32/bias_lr_multiplier: 4, &/'
        echo 'model: {name: resnet9, channels: [4, 6, 8, 10], logits_scale: 0.5}'
        echo 'tricks: {crop: {pad: 4}, flip: {}, pool_before_activation: {position: before_norm}, label_smoothing: {}, celu: {alpha: 0.3},'
        echo '  ghost_batchnorm: {group_size: 8}, frozen_bn_scale: {scale: 0.8}, patch_whitening: {images: 100},'
        echo '  ema: {momentum: 0.9, every: 2}, flip_tta: {}}'
    } >dawn94.yaml
}

# network_files: writes NAME.yaml for each NAME in $networks: tiny() with every network of images but its own, resnet9.
# Fails if models.def has a network of images that no file has.
networks="vgg basic bottleneck dense air wide"
network_files() {
    network_file vgg '{name: vgg, channels: [4, 6], hidden: 10}'
    network_file basic '{name: resnet, depth: 18, width: 4, stem: imagenet}'
    network_file bottleneck '{name: resnet, depth: 50, width: 4, stem: cifar}'
    network_file dense '{name: densenet, blocks: [2, 2], growth: 4, features: 6}' ', silu: {}'
    network_file air '{name: airbench, widths: [4, 6, 6], residual: on}' ', gelu: {}, whitening_bias: {size: 2}, multicrop_tta: {}'
    network_file wide '{name: wide_resnet, depth: 16, width: 1, dropout: 0.3}' ', celu: {}, stochastic_depth: {rate: 0.5}'
    for network in $(sed -n 's/^D9_MODEL(\(.*\))$/\1/p' "$source/engine/models/models.def"); do
        # Networks of texts get their files from text_files and stream_files.
        ! grep -q '\.texts = true' "$source/engine/models/$network.c" 2>/dev/null || continue
        tiny | cat - ./*.yaml | grep -q "name: $network," || fail "no file has the network $network"
    done
}
network_file() { # NAME MODEL [TRICKS]
    tiny | sed "s/^model.*/model: $2/; s/epochs: 2/epochs: 1/; s/train: 128/train: 64/; s/size: 32/size: 16/; s/image_size: 16/image_size: 20/; s/flip_tta: {}/&${3-}/" >"$1.yaml"
}

# text_files: writes texts/, 128 training and 64 test texts, and sentiment.yaml, a network that learns them. Each text
# of one class has the word "bad" or "awful", each of the other "good" or "fine".
cells="elman_tanh elman_relu gru lstm" # the cells of kernels/formulas/cells.def; PyTorch and ONNX have them, too
text_files() {
    python3 - <<'PYTHON'
import os, random
draw = random.Random(1)
for part, count in (("train", 64), ("test", 32)):
    for label, words in (("neg", ("bad", "awful")), ("pos", ("good", "fine"))):
        os.makedirs(f"texts/{part}/{label}")
        for i in range(count):
            text = [f"word{int(draw.expovariate(0.1))}" for _ in range(draw.randint(3, 20))]
            text.insert(draw.randint(max(0, len(text) - 5), len(text)), draw.choice(words))
            with open(f"texts/{part}/{label}/{i}.txt", "w") as file:
                file.write(" ".join(text).capitalize() + ".<br />\n")
PYTHON
    cat >sentiment.yaml <<'YAML'
target: 90
backend: reference
precision: f32
threads: 1
model: {name: sentiment, cell: gru, embedding: 8, hidden: 12}
data: {dataset: text, length: 12, vocabulary: 60}
train: {epochs: 8, batch_size: 16, optimizer: adam, momentum: 0.9, beta2: 0.999, weight_decay: 0, lr: {knots: [0], values: [0.02]}}
YAML
}

# stream_model CELL: trains a small network of language.yaml with this cell into CELL-stream; gru and elman_relu have tied
# weights.
stream_model() {
    case $1 in gru | elman_relu) tied=on ;; *) tied=off ;; esac
    accepts "$dawn9" train language.yaml --data corpus --out "$1-stream" --quiet --set train.epochs=0.3 \
        --set model.hidden=8 --set "model.cell=$1" --set model.tied=$tied --set 'train.lr={knots: [0], values: [0.1]}'
}

# stream_files: writes corpus/, small sentences in the three parts of a stream of words, and language.yaml, a network that
# learns them.
stream_files() {
    mkdir corpus && python3 - <<'PYTHON'
import random
draw = random.Random(1)
for part, lines in (("train", 240), ("valid", 40), ("test", 41)):
    with open(f"corpus/{part}.txt", "w") as file:
        for _ in range(lines):
            name, verb = draw.choice("ann bob eve".split()), draw.choice("sees hears".split())
            file.write(f" {name} {verb} {draw.choice(['a', 'the'])} {draw.choice(['cat', 'dog', 'bird'])} \n")
PYTHON
    cat >language.yaml <<'YAML'
target: 4
backend: reference
precision: f32
threads: 1
model: {name: language, cell: lstm, layers: 2, embedding: 8, hidden: 9, dropout: 0.1}
data: {dataset: corpus, length: 7}
eval: {streams: 3}
train: {epochs: 6, batch_size: 4, optimizer: sgd, momentum: 0, momentum_form: plain, weight_decay: 0, lr: {knots: [0], values: [8]}}
tricks: {clip_norm: {most: 0.25}}
YAML
}

# same_bits_by_threads: the reference backend and each CPU backend must give the same parameters with one thread and
# with two. Calls the script's own function `train NAME OPTION...`.
same_bits_by_threads() {
    for backend in reference $(cpu_backends); do
        for threads in 1 2; do train $backend.$threads --backend $backend --threads $threads --set train.epochs=1; done
        same_bits $backend.1 $backend.2
    done
}

# interrupt_at PATTERN COMMAND...: runs the command on a terminal, and sends it SIGINT once its output matches.
interrupt_at() { python3 "$source/tests/support/interrupt.py" INT "$@"; }

# stop_within_epoch CONFIG DATA OPTION...: trains into the folder `stopped`, and interrupts in the first epoch.
stop_within_epoch() {
    _config=$1 _data=$2
    shift 2
    interrupt_at '1/[0-9]+ \[' "$dawn9" train "$_config" --data "$_data" --out stopped "$@"
}

# needs_mpi: skips the script if mpirun or dawn9's MPI module is missing; sets Open MPI up for a busy machine and root.
needs_mpi() {
    command -v mpirun >/dev/null 2>&1 || skips mpi "mpirun is not installed"
    [ -e "$(dirname "$dawn9")/dawn9-mpi.so" ] || skips mpi "this build has no MPI"
    export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_pml=ob1 OMPI_MCA_btl=self,vader
    export OMPI_MCA_btl_vader_single_copy_mechanism=none OMPI_MCA_mpi_yield_when_idle=1
    export OMPI_MCA_orte_tmpdir_base="$scratch" # an mpirun that ends removes a folder that others may be about to use
    export ASAN_OPTIONS="detect_leaks=0:${ASAN_OPTIONS-}" # MPI leaks memory
}

# processes N COMMAND...: runs the command in N processes of MPI, for at most two minutes.
processes() {
    _count=$1
    shift
    timeout 120 mpirun -np "$_count" --oversubscribe --bind-to none "$@"
}

# train_on N NAME CONFIG OPTION...: trains into the folder NAME on N processes.
train_on() {
    _count=$1 _name=$2 _config=$3
    shift 3
    set -- "$dawn9" train "$_config" --out "$_name" --quiet "$@"
    [ "$_count" = 1 ] || set -- processes "$_count" "$@"
    accepts "$@"
}

# same_state A B [MOST]: checkpoints, events and predictions of two runs with `keep: all` agree. MOST (1e-10) is the
# largest difference of a number x in the checkpoints, relative to max(1, |x|) (tests/support/same_state.py).
same_state() {
    checks=$((checks + 1))
    python3 "$source/tests/support/same_state.py" "$1" "$2" "${3-1e-10}" 2>"$err" || fail "$1 and $2: $(tail -n 1 "$err")"
}
