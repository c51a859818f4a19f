# Runs the examples in the help of every command, in order, except those that need the network or train many runs.
# Appended options make those that train, bench or verify take seconds: a small network, few images, plain loops.
. "$(dirname "$0")/lib.sh"
for folder in configs experiments tests; do ln -s "$source/$folder" .; done
export PATH="$(dirname "$dawn9"):$PATH"

small='--backend reference --precision f32 --threads 1 --set data.dataset=synthetic --set data.synthetic_train=32
    --set data.synthetic_test=16 --set model.channels=[4,4,8,8] --set train.epochs=3 --set train.batch_size=32 --set target=5'

# options_for EXAMPLE: prints the options to append; `skip` if the example needs the network or takes too long.
options_for() {
    case $1 in
    *--dry-run* | *--status* | *'dawn9 config'*) ;;
    'dawn9 train'*' --runs '*) echo "$small" '--quiet' ;;
    'dawn9 train'* | 'dawn9 bench'*) echo "$small" ;;
    'dawn9 eval'*) ;; # the run's own configuration is small
    'dawn9 ablate'*) echo "$small" '--seeds 2' ;;
    'dawn9 experiment'*) echo skip ;; # too many runs; tests/cli/experiment.sh tests the command
    'dawn9 verify') echo '--cases tests/golden/cases/baseline.safetensors --backend reference --threads 1' ;;
    'dawn9 data fetch'*) echo skip ;;
    *) ;;
    esac
}

# Pictures to look at: any PNG will do.
mkdir pictures
accepts dawn9 data preview configs/synthetic.yaml --out picture.png
cp picture.png pictures

# A model of texts, and texts.
text_files
accepts dawn9 train sentiment.yaml --data texts --set train.epochs=1 --out runs/reviews --quiet

# A language model, of a corpus with the words of the example.
mkdir corpus
for part in train valid test; do for line in 1 2 3 4 5 6 7 8; do echo 'the war was long and the peace was short'; done >corpus/$part.txt; done
accepts dawn9 train "$source/configs/wikitext2-lstm.yaml" --data corpus --set data.dataset=corpus --set train.epochs=1 --set train.batch_size=2 \
    --set eval.streams=2 --set model.embedding=4 --set model.hidden=4 --set data.length=5 --backend reference --out runs/words --quiet

ran=0
for command in $("$dawn9" --help | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p'); do
    "$dawn9" $command --help | sed -n '/^Examples:$/,$p' | grep '^  [^#]' >"$scratch/examples"
    [ -s "$scratch/examples" ] || fail "dawn9 $command --help shows no example"
    while read -r line; do
        more=$(options_for "$line")
        [ "$more" != skip ] || continue
        ran=$((ran + 1))
        case $line in
        'dawn9 data check') # no data set is here
            observe sh -c "$line"
            [ $status = 1 ] || fail "status $status, 1 expected: $line"
            ;;
        source*) observe bash -c "$line" && [ $status = 0 ] || fail "status $status: $line" ;;
        *) accepts sh -c "$line $(echo "$more" | tr '\n' ' ')" ;;
        esac
    done <"$scratch/examples"
done
[ $ran -ge 20 ] || fail "only $ran examples were run"
[ -s my.yaml ] && [ -s sheet.png ] && [ -s runs/ablation/report.html ] || fail "an example has left no file"

# ---- tricks/measured.def is made from the report of an ablation ----
accepts "$source/experiments/measured.py" runs/ablation
[ "$(grep -cE '^D9_MEASURED\(crop, "ablation", D9_(LEFT_OUT|ADDED_TO_NONE), 0, NULL, 2, ' "$out")" = 2 ] || fail "no rows of crop: $(cat "$out")"
verdict
