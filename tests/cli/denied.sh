# Commands name files and folders that they may not read or write, with the reason, and do not call them missing.
. "$(dirname "$0")/lib.sh"
tiny | sed 's/epochs: 2/epochs: 0.5/' >tiny.yaml
printf 'config: tiny.yaml\narms: {a: {}}\nseeds: [1]\n' >arms.yaml
accepts "$dawn9" train tiny.yaml --out run --quiet
mkdir -p closed pictures/a && : >pictures/a/1.png && chmod 000 closed
# root can read every file, so as root the commands run without the capabilities that allow this
may_not=
[ "$(id -u)" != 0 ] || may_not="setpriv --bounding-set=-dac_override,-dac_read_search"
$may_not ls closed >"$out" 2>&1 && fail "the folder can be read"

denied() { # STATUS PLACE COMMAND...
    expected=$1 place=$2
    shift 2
    rejects "$expected" "$place Permission denied" $may_not "$dawn9" "$@"
    lacks "$err" 'missing|gets it|No such|holds an'
}
train="train tiny.yaml --out new"
denied 2 closed/tiny.yaml config closed/tiny.yaml
denied 2 closed/arms.yaml experiment closed/arms.yaml
denied 6 closed/run $train --out closed/run
denied 6 closed $train --out closed
denied 6 closed $train --out closed --resume
denied 2 closed/m $train --set train.from=closed/m
denied 3 closed/p $train --plan closed/p
denied 3 closed/data_batch_1 $train --set data.dataset=cifar10 --data closed
denied 3 closed/pictures $train --set data.dataset=folder --data closed/pictures
denied 3 closed/m eval closed/m
denied 3 closed/m predict closed/m pictures/a/1.png
denied 3 closed predict run closed
denied 3 closed/1.png predict run closed/1.png
denied 6 closed/l eval run --logits closed/l
denied 6 closed/m.onnx export run closed/m.onnx
denied 3 closed report closed
denied 2 closed/run compare run closed/run
denied 3 closed experiment arms.yaml --out closed
denied 3 closed/e experiment arms.yaml --out closed/e --status
denied 3 closed/cases verify --cases closed/cases
denied 6 closed/.fetch.lock data fetch cifar10 --data closed
chmod 000 pictures/a
denied 3 pictures/a $train --set data.dataset=folder --data pictures
chmod 755 pictures/a closed
chmod 000 run/model.safetensors
denied 3 run/model.safetensors eval run
chmod 000 run
denied 3 run report run
denied 6 run train tiny.yaml --out run --overwrite
chmod 755 run
verdict
