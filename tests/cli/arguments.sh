# Arguments, help, and where output cannot go.
. "$(dirname "$0")/lib.sh"

# ---- help is made from the tables: every command has it, and names its options ----
accepts "$dawn9" --help
for command in train eval verify bench compare data tricks config devices; do
    says "^  $command "
done
for command in train eval verify bench compare data tricks config devices; do
    accepts "$dawn9" $command --help
    says "^usage: dawn9 $command"
    says '^  --help'
done
accepts "$dawn9" train x --set y --help
for option in set with without seed runs backend precision threads data out resume plan save-plan quiet json; do
    says "^  --$option"
done
accepts "$dawn9" help train
says '^usage: dawn9 train'
accepts "$dawn9" help
says '^usage: dawn9 COMMAND'
accepts "$dawn9" --version
says '^dawn9 [0-9]+\.[0-9]+\.[0-9]+ \(commit [^ ]+, '
says '^backends .*reference$'

# ---- misuse ----
tiny >tiny.yaml
refuses 2 'no command' "$dawn9"
refuses 2 'unknown option "--hlep"; did you mean --help\?' "$dawn9" --hlep
refuses 2 'unknown option "-x": the command must come first' "$dawn9" -x
refuses 2 '"tiny.yaml" is a file: give a command first, like dawn9 train tiny.yaml' "$dawn9" tiny.yaml
refuses 2 'tiny.yml: there is no such file; did you mean tiny.yaml\?' "$dawn9" train tiny.yml
refuses 2 '\./tiny: there is no such file; did you mean \./tiny.yaml\?' "$dawn9" config ./tiny
refuses 2 'elsewhere/tiny.yaml: cannot open: No such file' "$dawn9" train elsewhere/tiny.yaml
refuses 2 'zzzzzz: there is no zzzzzz.yaml here, in configs/ or in configs/ladder/, and none came with this program' "$dawn9" eval zzzzzz model
mkdir -p a-run && cp tiny.yaml a-run/config.yaml
refuses 2 'a-run: is the folder of a run; its configuration is a-run/config.yaml' "$dawn9" train a-run
refuses 2 '\.: is a folder, not a file' "$dawn9" train .
refuses 2 'unknown command "trian"; did you mean train\?' "$dawn9" trian
refuses 2 'unknown command "zzzzzz"' "$dawn9" zzzzzz
refuses 2 'unknown option --sed; did you mean --se[et]' "$dawn9" train tiny.yaml --sed 1
refuses 2 'unknown option --precison; did you mean --precision\?' "$dawn9" verify --precison f32
refuses 2 'unknown option --image_size; did you mean --set data.image_size=VALUE\?' "$dawn9" train tiny.yaml --image_size 3
refuses 2 'did you mean --set data.image_size=VALUE\?' "$dawn9" config tiny.yaml --image-size=3
refuses 2 'did you mean --set tricks.mixup.alpha or tricks.label_smoothing.alpha or tricks.celu.alpha=VALUE\?' "$dawn9" eval x y --alpha 3
refuses 2 'unknown option --ema; did you mean --with ema\?' "$dawn9" train tiny.yaml --ema
refuses 2 'unknown option --learning-rate; did you mean --lr\?' "$dawn9" train tiny.yaml --learning-rate 1
refuses 2 'unknown option --learning_rate; did you mean --lr\?' "$dawn9" config tiny.yaml --learning_rate=1
refuses 2 'unknown option --rate-learning \(' "$dawn9" train tiny.yaml --rate-learning 1
refuses 2 'unknown option --epochs \(' "$dawn9" report --epochs
refuses 2 'unknown option -q' "$dawn9" train tiny.yaml -q
refuses 2 'CONFIG is missing' "$dawn9" train
refuses 2 'MODEL is missing' "$dawn9" eval tiny.yaml
refuses 2 'RUN is missing' "$dawn9" compare --json
refuses 2 'unexpected argument "more"' "$dawn9" train tiny.yaml more
refuses 2 '--set needs a value: K=V' "$dawn9" train tiny.yaml --set
refuses 2 'CONFIG is missing' "$dawn9" config
refuses 2 'an argument is empty' "$dawn9" train ''
refuses 2 '--out: the value is empty: DIR' "$dawn9" train tiny.yaml --out ''
refuses 2 '--help takes no value' "$dawn9" train --help=1
refuses 2 '--json takes no value' "$dawn9" train tiny.yaml --json=yes
refuses 2 '--seed: "x1" is not an integer' "$dawn9" train tiny.yaml --seed x1
refuses 2 '--seed: -1 is out of range, must be at least 0' "$dawn9" train tiny.yaml --seed -1
refuses 2 '--runs: 0 is out of range, must be 1 to' "$dawn9" train tiny.yaml --runs 0
refuses 2 '--threads: 4097 is out of range, must be 0 to 4096' "$dawn9" config tiny.yaml --threads 4097
accepts "$dawn9" config tiny.yaml --threads 4096
refuses 2 'ACTION: "chek" is not one of check\|fetch\|preview; did you mean check\?' "$dawn9" data chek
refuses 2 'WHAT: "opss" is not one of step\|eval\|pipeline\|ops\|cold\|fit' "$dawn9" bench opss
refuses 2 'unknown trick "emma"; did you mean ema\?' "$dawn9" tricks emma
refuses 2 'data check accepts only --data and --json' "$dawn9" data check --set a=b
refuses 2 'data check accepts only --data and --json' "$dawn9" data check --epochs 3
refuses 2 'data check accepts only --data and --json' "$dawn9" data check --with ema
refuses 2 'data preview needs a configuration' "$dawn9" data preview --out x.png
refuses 2 'data preview needs --out' "$dawn9" data preview tiny.yaml

# ---- options and words mix; `--` ends the options; a repeated option collects ----
accepts "$dawn9" config --set train.epochs=3 tiny.yaml --set=seed=9
says '^seed: 9'
says '^  epochs: 3'
accepts "$dawn9" config tiny.yaml --epochs 3 --batch-size 7 --lr 0.3
says '^  epochs: 3'
says '^  batch_size: 7'
says '^  lr: \{knots: .*, values: \[0, 0\.3, '
refuses 2 '--epochs three: train\.epochs: needs a finite number, not three' "$dawn9" config tiny.yaml --epochs three
refuses 2 '--set train.lr=100: train\.lr: needs a map; \{peak: 100\}, or --lr 100, keeps' "$dawn9" config tiny.yaml --set train.lr=100
cp tiny.yaml -- -odd.yaml
accepts "$dawn9" config -- -odd.yaml
accepts "$dawn9" config tiny.yaml --with celu:alpha=0.1 --without flip --seed 4 --origins
says '^  celu:'
says '^    alpha: 0.1 .*# --with'
says '^seed: 4 .*# --seed 4$'
grep -q '^  flip:' "$out" && fail "--without flip left flip in"

# ---- what only lists ----
accepts "$dawn9" tricks
says '^ema  '
says '^patch_whitening '
accepts "$dawn9" tricks ema
says '^  source  '
says '^    momentum  '
says '^ +number, 0 to 1; default 0.99$'
accepts "$dawn9" devices
says '^reference  .*precisions f64 f32 bf16 fp16'
accepts "$dawn9" devices --json
json "$out" 'any(row["backend"] == "reference" and row["present"] for row in d)'

# ---- output that cannot be written ----
to_full() { "$@" >/dev/full; }
to_nobody() { "$@" >&-; }
to_closed_pipe() {
    mkfifo "$scratch/pipe"
    (exec 3<"$scratch/pipe"; exec 3<&-) & # opens the reading end and leaves
    reader=$!
    { wait $reader; "$@"; } >"$scratch/pipe"
    result=$?
    rm "$scratch/pipe"
    return $result
}
for command in "tricks" "--help" "--version" "config tiny.yaml" "train --help" "devices --json"; do
    ends 6 'standard output: cannot write: No space left on device' to_full "$dawn9" $command
    ends 6 'standard output: cannot write: ' to_nobody "$dawn9" $command
done
ends 6 'standard output: cannot write: Broken pipe' to_closed_pipe "$dawn9" tricks
verdict
