# Help from the tables: topics, the reference page, tricks and their measured effects, the manual page, and completion.
. "$(dirname "$0")/lib.sh"
export PATH="$(dirname "$dawn9"):$PATH"
build=$(dirname "$dawn9")

# ---- dawn9 help: commands, tricks, keys, suggestions ----
accepts "$dawn9" help
cp "$out" "$scratch/help"
prints '^usage: dawn9 COMMAND' "$dawn9" --help
same "$out" "$scratch/help" "dawn9 help is not dawn9 --help"
[ "$(awk 'length > 80' "$out" | wc -l)" = 0 ] || fail "a line of help is longer than 80 columns"
commands=$(sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p' "$out")
[ "$(echo "$commands" | wc -l)" -ge 12 ] || fail "too few commands in the help: $commands"
for command in $commands; do
    accepts "$dawn9" $command --help
    cp "$out" "$scratch/help"
    says "^usage: dawn9 $command" '^  --help' '^Examples:$'
    # Options of the command itself are not listed among those that change a configuration, whatever their names.
    [ "$(grep -c '^To change the configuration:$' "$out")" = "$(grep -c -- '^  --with T' "$out")" ] || fail "$command --help lists other edits"
    accepts "$dawn9" help $command
    same "$out" "$scratch/help" "dawn9 help $command is not dawn9 $command --help"
    accepts "$dawn9" --help $command
    same "$out" "$scratch/help" "dawn9 --help $command is not dawn9 $command --help"
done
prints '^  source  ' "$dawn9" help ema
prints '^train.lr$' "$dawn9" help train.lr.peak
accepts "$dawn9" help train.lr
says '^train.lr$' 'default \{knots: \[0, 20%, end\]'
accepts "$dawn9" help alpha
says '^tricks.celu.alpha$' '^tricks.label_smoothing.alpha$'
prints '^eval.every$' "$dawn9" help eval.
[ "$(grep -c '^[a-z]' "$out")" = "$(grep -c '^eval[.]' "$out")" ] || fail "help eval. explains other keys"
rejects 2 'trian train' "$dawn9" help trian
rejects 2 'ghost_batchnorm' "$dawn9" help ghost_batchnrom
rejects 2 'train.momentum' "$dawn9" help train.momentm
accepts "$dawn9" help model.name
for model in resnet9 vgg resnet densenet airbench wide_resnet; do says "^    $model: "; done
accepts "$dawn9" help train.optimizer
says '^    sgd: ' '^    adam: ' '^    adamw: '
accepts "$dawn9" help best
says '^keep$' '^    best: '
hides '^    all: '
prints '^eval.patience$' "$dawn9" help early stopping
prints '^train.from$' "$dawn9" help Fine-Tuning
prints '^train.from$' "$dawn9" help pretrained
accepts "$dawn9" help batchsize # matches in names come first; an option of several commands is listed once
[ "$(head -n 1 "$out")" = 'train --batch-size N' ] || fail "help batchsize does not begin with the option of that name"
[ "$(grep -c -- '--batch-size N$' "$out")" = 1 ] || fail "help batchsize repeats an option"
accepts "$dawn9" help data augmentation # entries with the words side by side come before those with the words apart
[ "$(head -n 1 "$out")" = crop ] || fail "help data augmentation does not begin with a trick"
[ "$(grep -n '^report$' "$out" | cut -d: -f1)" -gt "$(grep -n '^cutmix$' "$out" | cut -d: -f1)" ] || fail "report is not last"
for word in auc AUC Auc; do # a term, and the last part of a key
    accepts "$dawn9" help $word
    says '^`train.loss`' && says '^published.auc$'
done
# A term of another tool leads to the option with this meaning; if there is none, an error names the nearest one.
while read -r named words; do
    prints "\`$named" "$dawn9" help $words
done <<'WORDS'
train.from finetune
train.batch_size out of memory
train Learning-Rate finders
precision amp
experiment multi GPU
train.lr nan
train.lr cosine annealing
train.accumulate gradient accumulation
train.loss AUC
trivial_augment rotation
data.fit center crop
eval roc
data.grey gray
train.loss multi-label
train.plateau reduce lr on plateau
train.plateau ReduceLROnPlateau
fine_tune layer decay
fine_tune freeze backbone
fine_tune unfreeze
WORDS
prints "MultiStepLR" "$dawn9" help multistep lr
while read -r named words; do
    rejects 2 "\`$named\` ${words%% *} has.no nearest" "$dawn9" help $words
done <<'WORDS'
trivial_augment AutoAugment
data.validation k-fold
train.lr warm restarts
data.split_column stratified
data.vocabulary tokenizer
WORDS
prints 'eval.patience' "$dawn9" help monitor
rejects 2 'has.no timeout train.*--resume' "$dawn9" help max time
rejects 2 'train extra' "$dawn9" help train extra
for name in $(grep -o '`[a-z][a-z_.]*`' "$source/engine/cli/help_terms.c" | tr -d '`' | sort -u); do
    prints "^($name( \(.*\))?|usage: dawn9 $name .*)\$" "$dawn9" help $name
done
for option in $(grep -o '`train --[a-z-]*' "$source/engine/cli/help_terms.c" | sed 's/.* //' | sort -u); do
    "$dawn9" train --help | grep -q -- "^  $option" || fail "help names train $option, which is not there"
done
rejects 2 'momentm momentum' "$dawn9" help momentm
rejects 2 'bash\|zsh\|fish zsh' "$dawn9" help --completion zshh

# ---- help loads no vendor library ----
LD_DEBUG=files LD_DEBUG_OUTPUT="$scratch/loaded" "$dawn9" --help >"$out"
cat "$scratch"/loaded.* >"$err"
has "$err" 'libyaml'
lacks "$err" 'dnnl|cuda|cudnn|dawn9-'

# ---- the reference page in docs/ is that of this build ----
accepts "$dawn9" config --reference
cmp "$out" "$source/docs/config.md" >"$err" || fail "docs/config.md is out of date: dawn9 config --reference >docs/config.md"
rejects 2 'tiny.yaml' "$dawn9" config tiny.yaml --reference

# ---- tricks as JSON ----
accepts "$dawn9" tricks --json
json "$out" 'len(d) >= 11 and all(t["name"] and t["what"] and t["source"] and t["published"] for t in d)' \
    '[o["default"] for t in d if t["name"] == "ema" for o in t["options"]] == ["0.99", "5", "on"]'
for experiment in $(sed -n 's/^D9_MEASURED([a-z_0-9]*, "\([^"]*\)".*/\1/p' "$source/tricks/measured.def" | sort -u); do
    [ -f "$source/experiments/$experiment.yaml" ] || fail "tricks/measured.def names experiments/$experiment.yaml, which is not there"
done
json "$out" 'all(m["low"] <= m["difference"] <= m["high"] and m["runs"] > 1 for t in d for m in t["measured"])'
# instead_of is a trick or null. `added`: the trick was added to a recipe or, with `to_none`, to a network without
# tricks.
json "$out" 'all(m["instead_of"] in [None] + [t["name"] for t in d] for t in d for m in t["measured"])' \
    '[(m["added"], m["to_none"], m["instead_of"]) for t in d if t["name"] == "silu" for m in t["measured"]] == [(True, False, "gelu")]' \
    '[(m["added"], m["to_none"]) for t in d if t["name"] == "patch_whitening" for m in t["measured"]] == [(False, False), (False, False), (True, True)]'
json "$out" 'all(t["name"] in next(u["conflicts"] for u in d if u["name"] == c) for t in d for c in t["conflicts"])' \
    '"cutmix" in next(t["conflicts"] for t in d if t["name"] == "mixup")'
replies 'd["name"] == "flip" and d["options"][0]["choices"] == "random|alternating"' "$dawn9" tricks flip --json
# A trick added to a recipe, one in another's place, and one added to a network without tricks.
for words in 'mixup a smaller, shorter recipe loses 1.21 points of accuracy with it (' \
    'silu a smaller, shorter recipe loses 1.17 points of accuracy with it instead of gelu (' \
    'ema a network without tricks loses 5.37 points of accuracy with it ('; do
    observe "$dawn9" tricks "${words%% *}"
    tr -s ' \n' ' ' <"$out" | grep -qF "${words#* }" || fail "not said: $words"
done
replies 'd["options"] == []' "$dawn9" tricks flip_tta --json

# ---- measured effects, from the tables of reports ----
mkdir -p small/report other/report none/report
printf '%s\t' arm baseline runs difference low high p | tee small/report/effects.tsv other/report/effects.tsv >none/report/effects.tsv
printf 'p_holm\nwithout ema\tall tricks\t10\t-0.25\t-0.375\t-0.125\t0.001\t0.002\n' >>small/report/effects.tsv
printf 'with celu and its companions\tno tricks\t9\t1.5\t1\t2\t0\t0\nwith crop\tno tricks\t1\t1.5\t\t\t\t\n' >>small/report/effects.tsv
printf 'p_holm\nhalf the rate\tfull\t3\t1\t0.5\t1.5\t0.1\t0.1\nwithout celu\tfull\t3\t-1\t-2\t0\t0.1\t0.1\n' >>other/report/effects.tsv
printf 'with mixup\tfull\t3\t-1\t-2\t0\t0.1\t0.1\nsilu instead of gelu\tfull\t3\t-1\t-2\t0\t0.1\t0.1\n' >>other/report/effects.tsv
printf 'p_holm\nhalf the rate\tfull\t3\t1\t0.5\t1.5\t0.1\t0.1\n' >>none/report/effects.tsv
observe "$source/experiments/measured.py" none
{ [ $status = 1 ] && grep -q 'none has no arm' "$err" && [ ! -s "$out" ]; } || fail "an experiment without a trick's arm: status $status"
accepts "$source/experiments/measured.py" small other/
says '^D9_MEASURED\(ema, "small", D9_LEFT_OUT, 0, NULL, 10, -0\.2500, -0\.3750, -0\.1250, 0\.0020\)$'
says '^D9_MEASURED\(celu, "small", D9_ADDED_TO_NONE, 1, NULL, 9, 1\.5000, 1\.0000, 2\.0000, 0\.0000\)$'
says '^D9_MEASURED\(celu, "other", D9_LEFT_OUT, 0, NULL, 3, -1\.0000, -2\.0000, 0\.0000, 0\.1000\)$'
says '^D9_MEASURED\(mixup, "other", D9_ADDED, 0, NULL, 3, -1\.0000, -2\.0000, 0\.0000, 0\.1000\)$'
says '^D9_MEASURED\(silu, "other", D9_ADDED, 0, "gelu", 3, -1\.0000, -2\.0000, 0\.0000, 0\.1000\)$'
[ "$(grep -c '^D9_MEASURED' "$out")" = 5 ] || fail "an arm without an interval, or of no trick, has a row"
grep -v '^D9_MEASURED' "$out" >head.def
grep -v '^D9_MEASURED\|^    ' "$source/tricks/measured.def" | cmp -s - head.def || fail "tricks/measured.def was not made by measured.py"

# ---- scripts: -h works from any folder, and a relative argument is of the caller's folder ----
for script in "$source"/experiments/*.sh "$source"/experiments/gpu/*.sh; do
    case $script in */keep.sh | */full-size.sh) continue ;; esac # have no -h
    prints '^usage: experiments/' env -C "$source/docs" sh "../${script#"$source/"}" -h
done
for words in 'bench-cpu f32 made' 'bench-sources made' 'networks made' 'precision made' 'rosetta made' 'side-by-side made' \
    'speed made' 'text made . .'; do
    # shellcheck disable=SC2086 # several words
    observe env DAWN9=false sh "$source/experiments/${words%% *}.sh" ${words#* } # ends at the first measurement
    [ -d made ] || fail "experiments/${words%% *}.sh: OUT is not below the caller's folder"
    rm -rf made
done
mkdir made && accepts sh "$source/experiments/parallel-speed.sh" made 0

# ---- the manual page: its parts, and no warning of groff ----
accepts "$dawn9" help --man
same "$out" "$build/man/dawn9.1" "man/dawn9.1 in the build folder is not that of dawn9 help --man"
cp "$out" dawn9.1
LC_ALL=C.UTF-8 groff -man -Tutf8 -ww -z dawn9.1 >"$out" 2>"$err" || fail "groff: status $?"
[ ! -s "$err" ] || fail "groff warns"
LC_ALL=C.UTF-8 groff -man -Tutf8 -P-cbou dawn9.1 >"$out" 2>"$err"
for word in 'dawn9 - train' '^COMMANDS' '   train CONFIG' '--without T' 'patch_whitening' 'train.batch_size' 'DAWN9_DATA' '143' \
    'model.safetensors'; do
    says "$word"
done
hides '`'

# ---- completion: the words that `help --complete` offers ----
tab=$(printf '\t')
offers() { # EXPECTED (names, space separated) WORD...
    expected=$1
    shift
    for word in "$@"; do set -- "$@" "--complete=$word"; shift; done
    accepts "$dawn9" help "$@"
    got=
    while IFS=$tab read -r name rest; do got="$got $name"; done <"$out"
    [ "${got# }" = "$expected" ] || fail "completion of '$*': '${got# }', '$expected' expected"
}
offers 'train tricks' tr
offers '--help' --h
offers '' nonsense ''
offers ':files yaml' train ''
offers ':files yaml' train --seed 3 ''
offers ':files yaml' train --resume ''
offers '' train x.yaml ''
offers '--with --without' train x.yaml --wi
offers '--seed' train --set a=b --see
offers '--save-plan' train --resume --sa
offers '--runs' train --resume --r
offers '--set' train --set a=b --set
offers 'ema' train --with em
offers 'ema ema:' train --with ema
offers 'ema:momentum= ema:every= ema:restart_each_epoch=' train --with ema:
offers 'ema:restart_each_epoch=on ema:restart_each_epoch=off' train --with ema:restart_each_epoch=
offers 'flip flip_tta' ablate x.yaml --without fl
offers 'ema,flip ema,flip_tta' ablate x.yaml --only ema,fl
offers 'train.momentum= train.momentum_form=' config --set train.mom
offers 'train.momentum_form=page train.momentum_form=torch train.momentum_form=plain' config --set train.momentum_form=
offers '--set=tricks.ema.every=' config --set=tricks.ema.ev
offers '--precision=bf16' train --precision=b
offers '--precision=tf32' train --precision=t
offers 'onednn' bench --backend on
offers 'step' bench st
offers ':folders' train --out ''
offers ':folders' compare a b c ''
offers ':files' train --plan ''
offers ':files' data fetch imdb --from ''
offers 'cifar10 imdb wikitext2 resnet18' data fetch ''
offers ':files yaml' data preview ''
offers '' generate a --temperature ''
offers 'zsh' help --completion z
offers 'train.loss train.lr' help train.l
offers ':files yaml' train -- --se
mkdir configs experiments && touch configs/given.yaml configs/given-more.yaml configs/given.txt experiments/gift.yaml
offers 'given-more given :files yaml' train gi
offers 'gift :files yaml' experiment gi
offers ':files yaml' experiment gi/
rm -r configs experiments

# ---- completion in a real bash ----
accepts "$dawn9" help --completion bash
same "$out" "$build/completions/dawn9.bash" "completions/dawn9.bash in the build folder is another"
mkdir -p shell/configs && touch shell/configs/a.yaml shell/configs/b.txt
cp "$out" shell/dawn9.bash
bash -n shell/dawn9.bash || fail "bash -n"
cat >shell/type.py <<'PY'
"""Types each line and a tab into an interactive bash on a pseudo-terminal, and checks readline's completed lines."""
import os, pty, select, sys, time

pid, terminal = pty.fork()
if pid == 0:
    os.environ.update(TERM="dumb", INPUTRC="/dev/null")
    os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
setup = r"""bind 'set bell-style none'; bind -x '"\C-t": printf "%s\n" "$READLINE_LINE" >>lines'; """
os.write(terminal, setup.encode() + b"source ./dawn9.bash; complete -p dawn9 >lines\n")
lines = []


def wait(count):  # until the file has `count` lines
    global lines
    end = time.monotonic() + 120
    while len(lines) < count and time.monotonic() < end:
        if select.select([terminal], [], [], 0.02)[0]:
            os.read(terminal, 65536)  # a full terminal would stop bash
        lines = open("lines").read().split("\n")[:-1] if os.path.exists("lines") else []
    if len(lines) < count:
        sys.exit(f"bash: {lines}, and no line after it")


wait(1)
for case in sys.argv[1:]:
    os.write(terminal, case.split("|")[0].encode() + b"\t\x14\x15")
    wait(len(lines) + 1)
os.write(terminal, b"exit\n")
expected = ["complete -F _dawn9 dawn9"] + [case.split("|")[1] for case in sys.argv[1:]]
if lines != expected:
    sys.exit("\n".join(f"bash: {a!r}, {b!r} expected" for a, b in zip(lines, expected) if a != b))
PY
(cd shell && python3 type.py 'dawn9 trai|dawn9 train ' 'dawn9 train --with em|dawn9 train --with ema ' \
    'dawn9 train --with ema:ev|dawn9 train --with ema:every=' \
    'dawn9 train --with ema:every=5,mo|dawn9 train --with ema:every=5,momentum=' \
    'dawn9 train --set train.bat|dawn9 train --set train.batch_size=' \
    'dawn9 train --set tricks.flip.rule=a|dawn9 train --set tricks.flip.rule=alternating ' \
    'dawn9 train --backend=on|dawn9 train --backend=onednn ' 'dawn9 train conf|dawn9 train configs/' \
    'dawn9 train configs/|dawn9 train configs/a.yaml ' 'dawn9 train x --out=conf|dawn9 train x --out=configs/' \
    'dawn9 nothing |dawn9 nothing ' >"$out" 2>"$err") || fail "bash completion"

# ---- zsh and fish, if they are installed ----
for shell in zsh fish; do
    accepts "$dawn9" help --completion $shell
    cp "$out" shell/dawn9.$shell
done
if command -v zsh >/dev/null 2>&1 || omits zsh "not installed"; then
    zsh -n shell/dawn9.zsh 2>"$err" || fail "zsh -n"
fi
fish_offers() { # LINE EXPECTED (space separated)
    observe fish -c "cd shell; source dawn9.fish; complete -C '$1'"
    got=$(cut -f1 "$out" | LC_ALL=C sort | tr '\n' ' ' | sed 's/ $//')
    [ "$got" = "$2" ] || fail "fish: '$1' offers '$got', '$2' expected"
}
if command -v fish >/dev/null 2>&1 || omits fish "not installed"; then
    fish -n shell/dawn9.fish 2>"$err" || fail "fish -n"
    fish_offers 'dawn9 tr' 'train tricks'
    fish_offers 'dawn9 train --with ema:ev' 'ema:every='
    fish_offers 'dawn9 train configs/' 'configs/a.yaml'
    fish_offers 'dawn9 train x --out=conf' '--out=configs/'
    fish_offers 'dawn9 train --backend=on' '--backend=onednn'
fi
verdict
