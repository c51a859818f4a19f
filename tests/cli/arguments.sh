# Arguments, help, commands that only list, output that cannot be written or is read late, SIGTERM as process 1.
. "$(dirname "$0")/lib.sh"

# ---- help names commands, and the options of train ----
accepts "$dawn9" --help
for command in train eval verify bench compare data tricks config devices; do
    says "^  $command "
done
accepts "$dawn9" train x --set y --help
for option in set with without seed runs backend precision threads data out resume plan save-plan quiet json; do
    says "^  --$option"
done
accepts "$dawn9" --version
says '^dawn9 [0-9]+\.[0-9]+\.[0-9]+ \(commit [^ ]+, ' '^backends .*reference$'

# ---- wrong arguments ----
tiny >tiny.yaml
rejects 2 'command' "$dawn9"
rejects 2 '--hlep --help' "$dawn9" --hlep
rejects 2 '-x' "$dawn9" -x
rejects 2 'tiny.yaml' "$dawn9" tiny.yaml
cp tiny.yaml 'a tiny.yaml'
rejects 2 "train.'a.tiny.yaml'" "$dawn9" 'a tiny.yaml'
rm 'a tiny.yaml'
rejects 2 'tiny.yml tiny.yaml' "$dawn9" train tiny.yml
rejects 2 '\./tiny \./tiny.yaml' "$dawn9" config ./tiny
rejects 2 'elsewhere/tiny.yaml' "$dawn9" train elsewhere/tiny.yaml
mkdir -p configs && tiny >configs/small-one.yaml
rejects 2 'config/small-one.yaml mean configs/small-one.yaml' "$dawn9" train config/small-one.yaml
rm -r configs
rejects 2 'ACTION check fetch preview' "$dawn9" data
rejects 2 '--out OUT' "$dawn9" export a-run --out a.onnx
rejects 2 "--out ~/x $HOME/x" "$dawn9" train tiny.yaml "--out=~/x" # dash and bash leave this ~ as it is
rejects 2 "--data ~/x $HOME/x" "$dawn9" train tiny.yaml "--data=~/x"
rejects 2 "data\.path ~/x $HOME/x" "$dawn9" train tiny.yaml --set "data.path=~/x"
rejects 2 'zzzzzz zzzzzz.yaml configs/ configs/ladder/' "$dawn9" eval zzzzzz model
mkdir -p a-run && cp tiny.yaml a-run/config.yaml
rejects 2 'a-run a-run/config.yaml' "$dawn9" train a-run
rejects 2 '\.' "$dawn9" train .
rejects 2 'trian train' "$dawn9" trian
rejects 2 'zzzzzz' "$dawn9" zzzzzz
rejects 2 '--sed --se[et]' "$dawn9" train tiny.yaml --sed 1
rejects 2 '--precison --precision' "$dawn9" verify --precison f32
rejects 2 '--image_size --set data.image_size=VALUE' "$dawn9" train tiny.yaml --image_size 3
rejects 2 '--set data.image_size=VALUE' "$dawn9" config tiny.yaml --image-size=3
rejects 2 '--set tricks.mixup.alpha tricks.label_smoothing.alpha tricks.celu.alpha=VALUE' "$dawn9" eval x y --alpha 3
rejects 2 '--ema --with' "$dawn9" train tiny.yaml --ema
rejects 2 '--learning-rate --lr' "$dawn9" train tiny.yaml --learning-rate 1
rejects 2 '--learning_rate --lr' "$dawn9" config tiny.yaml --learning_rate=1
rejects 2 '--rate-learning' "$dawn9" train tiny.yaml --rate-learning 1
rejects 2 '--epochs' "$dawn9" report --epochs
rejects 2 '-q' "$dawn9" train tiny.yaml -q
rejects 2 'CONFIG' "$dawn9" train
rejects 2 'MODEL' "$dawn9" eval tiny.yaml
rejects 2 'RUN' "$dawn9" compare --json
rejects 2 'more' "$dawn9" train tiny.yaml more
rejects 2 '--set K=V' "$dawn9" train tiny.yaml --set
rejects 2 '--out --dry-run --out=--dry-run' "$dawn9" experiment tiny.yaml --out --dry-run
rejects 2 '--data --out=x' "$dawn9" train tiny.yaml --data --out=x
rejects 2 'tiny.yaml' "$dawn9" experiment tiny.yaml --slurm --sbatch --time=10 # --time=10: the value of --sbatch
accepts "$dawn9" train tiny.yaml --out=--quiet --epochs 1 --quiet
[ -s ./--quiet/result.json ] || fail "--out=--quiet is not the folder"
rm -r ./--quiet
rejects 2 '--sbatch empty' "$dawn9" experiment tiny.yaml --slurm --dry-run --sbatch=
rejects 2 'CONFIG' "$dawn9" config
rejects 2 'empty' "$dawn9" train ''
rejects 2 '--out DIR' "$dawn9" train tiny.yaml --out ''
rejects 2 '--help' "$dawn9" train --help=1
rejects 2 '--json' "$dawn9" train tiny.yaml --json=yes
rejects 2 '--seed x1' "$dawn9" train tiny.yaml --seed x1
rejects 2 '--seed -1 0' "$dawn9" train tiny.yaml --seed -1
rejects 2 '--runs 0 1' "$dawn9" train tiny.yaml --runs 0
rejects 2 '--threads 4097 0 4096' "$dawn9" config tiny.yaml --threads 4097
accepts "$dawn9" config tiny.yaml --threads 4096
rejects 2 'ACTION chek check\|fetch\|preview check' "$dawn9" data chek
rejects 2 'WHAT opss step\|eval\|pipeline\|ops\|cold\|fit' "$dawn9" bench opss
rejects 2 'emma ema' "$dawn9" tricks emma
rejects 2 '--data --json' "$dawn9" data check --set a=b
rejects 2 '--data --json' "$dawn9" data check --epochs 3
rejects 2 '--data --json' "$dawn9" data check --with ema
rejects 2 'configuration' "$dawn9" data preview --out x.png
rejects 2 '--out' "$dawn9" data preview tiny.yaml

# ---- options and arguments mix; `--` ends the options; every repeated --set counts ----
accepts "$dawn9" config --set train.epochs=3 tiny.yaml --set=seed=9
says '^seed: 9' '^  epochs: 3'
accepts "$dawn9" config tiny.yaml --epochs 3 --batch-size 7 --lr 0.3
says '^  epochs: 3' '^  batch_size: 7' '^  lr: \{knots: .*, values: \[0, 0\.3, '
rejects 2 '--epochs train\.epochs' "$dawn9" config tiny.yaml --epochs three
rejects 2 '--set train.lr=100 train\.lr \{peak 100\} --lr 100' "$dawn9" config tiny.yaml --set train.lr=100
cp tiny.yaml -- -odd.yaml
accepts "$dawn9" config -- -odd.yaml
accepts "$dawn9" config tiny.yaml --with celu:alpha=0.1 --without flip --seed 4 --origins
says '^  celu:' '^    alpha: 0.1 .*# --with' '^seed: 4 .*# --seed 4$'
hides '^  flip:'

# ---- commands that only list ----
accepts "$dawn9" tricks
says '^ema  ' '^patch_whitening '
accepts "$dawn9" tricks ema
says '^  source  ' '^    momentum  ' '^ +number, 0 to 1; default 0.99$'
prints '^reference  .*precisions f64 f32 bf16 fp16' "$dawn9" devices
replies 'any(row["backend"] == "reference" and row["present"] for row in d)' "$dawn9" devices --json

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
    ends 6 'output' to_full "$dawn9" $command
    ends 6 'output' to_nobody "$dawn9" $command
done
accepts to_closed_pipe "$dawn9" tricks # as `| head` closes it
ends 2 'nothing.yaml' to_closed_pipe "$dawn9" config nothing.yaml

# ---- a non-blocking output that is full is waited for ----
# usage: slow_reader.py stdout|stderr COMMAND...: the command writes into a full, non-blocking pipe, which is read after
# half a second. Then it writes the command's output to its own stdout or stderr, and ends with the command's status.
cat >"$scratch/slow_reader.py" <<'PYTHON'
import fcntl, os, subprocess, sys, time
read, write = os.pipe()
os.set_blocking(write, False)
full = fcntl.fcntl(write, 1031, 4096)  # F_SETPIPE_SZ returns the capacity
os.write(write, bytes(full))
child = subprocess.Popen(sys.argv[2:], **{sys.argv[1]: write})
os.close(write)
time.sleep(0.5)
came = b"".join(iter(lambda: os.read(read, 1024), b""))
os.write({"stdout": 1, "stderr": 2}[sys.argv[1]], came[full:])
sys.exit(child.wait())
PYTHON
accepts "$dawn9" help --man
mv "$out" manual
accepts python3 "$scratch/slow_reader.py" stdout "$dawn9" help --man
same manual "$out" "a slow reader of a non-blocking pipe gets another text"
ends 2 'nothing.yaml' python3 "$scratch/slow_reader.py" stderr "$dawn9" config nothing.yaml

# ---- SIGTERM ends dawn9 as process 1 of a container ----
# The command gets the signal while it waits for a reader. Status 99: it has not ended 20 seconds later.
cat >"$scratch/first_process.py" <<'PYTHON'
import fcntl, os, select, signal, subprocess, sys
read, write = os.pipe()
fcntl.fcntl(write, 1031, 4096)  # F_SETPIPE_SZ: less than the manual
child = subprocess.Popen(["unshare", "-Urpf", *sys.argv[1:]], stdout=write)
os.close(write)
select.select([read], [], [])
inside = int(open(f"/proc/{child.pid}/task/{child.pid}/children").read())
os.kill(inside, signal.SIGTERM)
try:
    sys.exit(child.wait(20))
except subprocess.TimeoutExpired:
    os.kill(inside, signal.SIGKILL)
    sys.exit(99)
PYTHON
if unshare -Urpf true 2>/dev/null && [ -r "/proc/$$/task/$$/children" ] || omits namespaces "not in this container"; then
    observe python3 "$scratch/first_process.py" "$dawn9" help --man
    [ $status = 143 ] || fail "process 1 ended with status $status after SIGTERM, 143 expected"
fi
verdict
